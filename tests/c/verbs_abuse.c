/* verbs_abuse <what>: does to the first RDMA device what a program must not. Ends well if the device lets it. */
#include <infiniband/verbs.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char memory[8192];

static void *must(void *made, const char *what)
{
    if (made == NULL) {
        perror(what);
        exit(2);
    }
    return made;
}

static struct ibv_qp *pair_of(struct ibv_pd *pd, struct ibv_cq *cq)
{
    struct ibv_qp_init_attr init = { .send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_RAW_PACKET,
                                     .cap = { .max_send_wr = 16, .max_recv_wr = 16, .max_send_sge = 1,
                                              .max_recv_sge = 1, .max_inline_data = 64 } };
    struct ibv_qp *qp = must(ibv_create_qp(pd, &init), "ibv_create_qp");
    for (int state = IBV_QPS_INIT; state <= IBV_QPS_RTS; state++) {
        struct ibv_qp_attr attr = { .qp_state = state, .port_num = 1 };
        if (ibv_modify_qp(qp, &attr, IBV_QP_STATE | (state == IBV_QPS_INIT ? IBV_QP_PORT : 0)) != 0)
            exit(2);
    }
    return qp;
}

static int receive_into(struct ibv_qp *qp, uint32_t key, void *at)
{
    struct ibv_sge part = { .addr = (uintptr_t)at, .length = 2048, .lkey = key };
    struct ibv_recv_wr request = { .sg_list = &part, .num_sge = 1 }, *bad;
    return ibv_post_recv(qp, &request, &bad);
}

static int send_from(struct ibv_qp *qp, uint32_t key, void *at)
{
    struct ibv_sge part = { .addr = (uintptr_t)at, .length = 60, .lkey = key };
    struct ibv_send_wr request = { .sg_list = &part, .num_sge = 1, .opcode = IBV_WR_SEND,
                                   .send_flags = IBV_SEND_SIGNALED }, *bad;
    return ibv_post_send(qp, &request, &bad);
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "";
    int count = 0;
    struct ibv_device **list = must(ibv_get_device_list(&count), "ibv_get_device_list");
    struct ibv_context *context = must(ibv_open_device(must(list[0], "a device")), "ibv_open_device");
    struct ibv_pd *pd = must(ibv_alloc_pd(context), "ibv_alloc_pd");
    struct ibv_mr *mr = must(ibv_reg_mr(pd, memory, 4096, IBV_ACCESS_LOCAL_WRITE), "ibv_reg_mr");
    struct ibv_cq *cq = must(ibv_create_cq(context, 2, NULL, NULL, 0), "ibv_create_cq");
    struct ibv_qp *qp = pair_of(pd, cq);
    struct ibv_wc completion;

    if (receive_into(qp, mr->lkey, memory) != 0 || send_from(qp, mr->lkey, memory + 2048) != 0)
        return 2;
    if (ibv_poll_cq(cq, 1, &completion) != 1 || completion.status != IBV_WC_SUCCESS)
        return 2;
    if (strcmp(what, "unregistered") == 0)
        receive_into(qp, mr->lkey, memory + 4096);
    if (strcmp(what, "reused") == 0)
        send_from(qp, mr->lkey, memory);
    for (int i = 0; i < 3 && strcmp(what, "overrun") == 0; i++)
        send_from(qp, mr->lkey, memory + 2048 + 64 * i);
    return 0;
}
