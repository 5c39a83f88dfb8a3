echo "Hello!"
