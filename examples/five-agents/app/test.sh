# Fails until greet.sh greets by name.
[ "$(sh greet.sh Ada)" = "Hello, Ada!" ] && echo PASS || { echo FAIL; exit 1; }
