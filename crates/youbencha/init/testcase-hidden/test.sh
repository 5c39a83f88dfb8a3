for name in Ada Grace; do
  test "$(sh greet.sh "$name")" = "Hello, $name!" || { echo "FAIL: greet.sh $name"; exit 1; }
done
echo pass
