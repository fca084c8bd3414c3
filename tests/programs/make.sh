# gcc and make, side by side.
cat >Makefile <<'END'
OBJECTS = $(patsubst %,f%.o,1 2 3 4 5 6 7 8)
program: $(OBJECTS) main.o
	$(CC) -o $@ $^
%.o: %.c
	$(CC) -c -O1 -pipe -o $@ $<
f%.c:
	echo 'int f$*(void) { return $*; }' >$@
main.c:
	printf 'int printf(const char *, ...);\nint f1(void), f8(void);\nint main(void) { printf("%%d\\n", f1() + f8()); return 9; }\n' >$@
END
make --no-print-directory -j3 --output-sync program | LC_ALL=C sort
./program || echo "status $?"
make --no-print-directory program
echo 'int main(void) { return x; }' | gcc -fdiagnostics-color=never -x c - -o bad || echo "gcc: $?"
make --no-print-directory --question absent || echo "make: $?"
