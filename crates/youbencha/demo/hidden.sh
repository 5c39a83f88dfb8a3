# Hidden from the agent; used only for grading.
test "$(sh greet.sh Ada)" = "Hello, Ada!" || { echo "FAIL: somebody with a name"; exit 1; }
test "$(sh greet.sh)" = "Hello, world!" || { echo "FAIL: somebody without a name"; exit 1; }
