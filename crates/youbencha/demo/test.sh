test "$(sh greet.sh Ada)" = "Hello, Ada!" && echo pass || { echo FAIL; exit 1; }
