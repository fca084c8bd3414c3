/* Programs that load the library themselves have the names of calls stand for pointers, and include the header after that: it must not declare the calls. */
#define _GNU_SOURCE
#include <netinet/in.h>
#include <stdio.h>

extern long (*own_call)(void);
#define readv own_call
#define writev own_call
#define select own_call
#define clone own_call
#define read own_call
#define write own_call
#define close own_call
#include <mellanox/vma_extra.h>

int main(void)
{
    printf("%s\n", vma_get_api() ? "a table" : "no table");
    return 0;
}
