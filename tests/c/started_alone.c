/* The same, linked statically: nothing can be preloaded. */
#include "started.c"
