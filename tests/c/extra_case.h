/* What programs about the extra API share, compiled against the header that is shipped. */
#ifndef EXTRA_CASE_H
#define EXTRA_CASE_H

#include "stream_case.h"
#include <mellanox/vma_extra.h>

static struct vma_api_t *api;

UNUSED static void look_for_it(void)
{
    api = vma_get_api();
    if (!api) {
        printf("no table\n");
        exit(0);
    }
}

#endif
