/* The extra API of libvma: functions beyond those of sockets, for programs that run with the library preloaded or without.
 *
 * vma_get_api() finds them at run time; there is nothing to link. `vma_extra_supported_mask` says which of them do something; the others fail
 * with EOPNOTSUPP. Names, numbers and layouts are those of VMA 9.8. See docs/extra-api.md.
 */
#ifndef VMA_EXTRA_H
#define VMA_EXTRA_H

/* No more than that: programs that load the library themselves have names of calls stand for pointers before they include this. */
#include <netinet/in.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <time.h>
#if defined(__STRICT_ANSI__) && !defined(_GNU_SOURCE)
#include <pthread.h> /* pthread_t, which <sys/types.h> has in the other modes */
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* Flags of recvfrom_zcopy(): fail rather than copy (EIO); and, when it returns: the buffer holds a struct vma_packets_t. */
#define MSG_VMA_ZCOPY_FORCE 0x01000000
#define MSG_VMA_ZCOPY 0x00040000

/* Socket options, level SOL_SOCKET. */
#define SO_VMA_GET_API 2800
#define SO_VMA_USER_DATA 2801
#define SO_VMA_RING_ALLOC_LOGIC 2810
#define SO_VMA_RING_USER_MEMORY 2811
#define SO_VMA_FLOW_TAG 2820
#define SO_VMA_SHUTDOWN_RX 2821

/* A flag of send(), sendto(), sendmsg() and sendmmsg(): all is done but sending (MSG_SYN). */
#define VMA_SND_FLAGS_DUMMY 0x400

/* Control messages of vma_api_t::ioctl(), level SOL_SOCKET. */
enum { CMSG_VMA_IOCTL_USER_ALLOC = 2900 };
enum { VMA_IOCTL_USER_ALLOC_FLAG_TX = 1 << 0, VMA_IOCTL_USER_ALLOC_FLAG_RX = 1 << 1 };

#pragma pack(push, 1)
struct vma_cmsg_ioctl_user_alloc_t {
	uint8_t flags;
	void *(*memalloc)(size_t);
	void (*memfree)(void *);
};
#pragma pack(pop)

/* Bits of vma_api_t::vma_extra_supported_mask. */
enum {
	VMA_EXTRA_API_REGISTER_RECV_CALLBACK = 1 << 0,
	VMA_EXTRA_API_RECVFROM_ZCOPY = 1 << 1,
	VMA_EXTRA_API_FREE_PACKETS = 1 << 2,
	VMA_EXTRA_API_ADD_CONF_RULE = 1 << 3,
	VMA_EXTRA_API_THREAD_OFFLOAD = 1 << 4,
	VMA_EXTRA_API_DUMP_FD_STATS = 1 << 5,
	VMA_EXTRA_API_SOCKETXTREME_POLL = 1 << 6,
	VMA_EXTRA_API_SOCKETXTREME_FREE_VMA_PACKETS = 1 << 7,
	VMA_EXTRA_API_SOCKETXTREME_REF_VMA_BUFF = 1 << 8,
	VMA_EXTRA_API_SOCKETXTREME_FREE_VMA_BUFF = 1 << 9,
	VMA_EXTRA_API_GET_SOCKET_RINGS_NUM = 1 << 10,
	VMA_EXTRA_API_GET_SOCKET_RINGS_FDS = 1 << 11,
	VMA_EXTRA_API_GET_SOCKET_TX_RING_FD = 1 << 12,
	VMA_EXTRA_API_GET_SOCKET_NETWORK_HEADER = 1 << 13,
	VMA_EXTRA_API_GET_RING_DIRECT_DESCRIPTORS = 1 << 14,
	VMA_EXTRA_API_ADD_RING_PROFILE = 1 << 16,
	VMA_EXTRA_API_REGISTER_MEMORY_ON_RING = 1 << 17,
	VMA_EXTRA_API_DEREGISTER_MEMORY_ON_RING = 1 << 18,
	VMA_EXTRA_API_MODIFY_RING = 1 << 20,
	VMA_EXTRA_API_IOCTL = 1 << 21
};

/* What a socket's packets have of the program's. */
struct vma_buff_t {
	struct vma_buff_t *next;
	void *payload;
	uint16_t len;
};

struct vma_packet_desc_t {
	size_t num_bufs;
	uint16_t total_len;
	struct vma_buff_t *buff_lst;
	struct timespec hw_timestamp;
};

/* Events of a completion beside those of epoll. */
typedef enum {
	VMA_SOCKETXTREME_PACKET = (1ULL << 32),
	VMA_SOCKETXTREME_NEW_CONNECTION_ACCEPTED = (1ULL << 33)
} vma_socketxtreme_events_t;

struct vma_completion_t {
	struct vma_packet_desc_t packet;
	uint64_t events;
	uint64_t user_data; /* the descriptor, or what SO_VMA_USER_DATA says */
	struct sockaddr_in src;
	int listen_fd;
};

#pragma pack(push, 1)
/* A packet that the program holds until free_packets(). */
struct vma_packet_t {
	void *packet_id;
	size_t sz_iov;
#if defined(__cplusplus)
	struct iovec iov[1];
#define VMA_PACKET_T_SIZE (sizeof(struct vma_packet_t) - sizeof(struct iovec))
#else
	struct iovec iov[];
#define VMA_PACKET_T_SIZE sizeof(struct vma_packet_t)
#endif
};

/* What recvfrom_zcopy() leaves in the buffer. The next packet begins behind the last iov of the one before it. */
struct vma_packets_t {
	size_t n_packet_num;
#if defined(__cplusplus)
	struct vma_packet_t pkts[1];
#else
	struct vma_packet_t pkts[];
#endif
};

/* What a callback is told of a packet. */
struct vma_info_t {
	size_t struct_sz;
	void *packet_id;
	struct sockaddr_in *src;
	struct sockaddr_in *dst;
	size_t payload_sz;
	uint32_t socket_ready_queue_pkt_count;
	uint32_t socket_ready_queue_byte_count;
	struct timespec hw_timestamp;
	struct timespec sw_timestamp;
};
#pragma pack(pop)

/* A value of SO_MAX_PACING_RATE. */
struct vma_rate_limit_t {
	uint32_t rate; /* kilobits a second */
	uint32_t max_burst_sz; /* bytes */
	uint16_t typical_pkt_sz; /* bytes */
};

/* Who has a ring of its own (SO_VMA_RING_ALLOC_LOGIC). */
typedef enum {
	RING_LOGIC_PER_INTERFACE = 0,
	RING_LOGIC_PER_IP = 1,
	RING_LOGIC_PER_SOCKET = 10,
	RING_LOGIC_PER_USER_ID = 11,
	RING_LOGIC_PER_THREAD = 20,
	RING_LOGIC_PER_CORE = 30,
	RING_LOGIC_PER_CORE_ATTACH_THREADS = 31,
	RING_LOGIC_LAST = 32
} ring_logic_t;

typedef enum {
	VMA_RING_ALLOC_MASK_RING_PROFILE_KEY = 1 << 0,
	VMA_RING_ALLOC_MASK_RING_USER_ID = 1 << 1,
	VMA_RING_ALLOC_MASK_RING_INGRESS = 1 << 2,
	VMA_RING_ALLOC_MASK_RING_ENGRESS = 1 << 3
} vma_ring_alloc_logic_attr_comp_mask;

struct vma_ring_alloc_logic_attr {
	uint32_t comp_mask;
	ring_logic_t ring_alloc_logic;
	uint32_t ring_profile_key;
	uint32_t user_id;
	uint32_t ingress : 1;
	uint32_t engress : 1;
	uint32_t reserved : 30;
};

typedef enum { VMA_MODIFY_RING_CQ_MODERATION = 1 << 0, VMA_MODIFY_RING_CQ_ARM = 1 << 1 } vma_modify_ring_mask;

struct vma_cq_moderation_attr {
	uint32_t cq_moderation_count;
	uint32_t cq_moderation_period_usec;
};

struct vma_cq_arm_attr {
};

struct vma_modify_ring_attr {
	uint32_t comp_bit_mask;
	int ring_fd;
	union {
		struct vma_cq_moderation_attr cq_moderation;
		struct vma_cq_arm_attr cq_arm;
	};
};

typedef enum { VMA_RING_PACKET = 0, VMA_RING_EXTERNAL_MEM = 1 } vma_ring_type;

struct vma_packet_queue_ring_attr {
	uint32_t comp_mask;
};

struct vma_external_mem_attr {
	uint32_t comp_mask;
};

typedef enum { VMA_RING_ATTR_LAST } vma_ring_type_attr_mask;

struct vma_ring_type_attr {
	uint32_t comp_mask;
	vma_ring_type ring_type;
	union {
		struct vma_packet_queue_ring_attr ring_pktq;
		struct vma_external_mem_attr ring_ext;
	};
};

/* What vma_add_ring_profile() gives, for vma_ring_alloc_logic_attr::ring_profile_key. */
typedef int vma_ring_profile_key;

/* Queues of the hardware; of a ring of AF_XDP there are none (EOPNOTSUPP). */
typedef enum { VMA_HW_PP_EN = 1 << 0, VMA_HW_PP_BURST_EN = 1 << 3 } mlx_hw_device_cap;
typedef enum { DATA_VALID_DEV, DATA_VALID_SQ, DATA_VALID_RQ } vma_mlx_hw_valid_data_mask;

struct dev_data {
	uint32_t vendor_id;
	uint32_t vendor_part_id;
	uint32_t device_cap;
};

struct hw_cq_data {
	void *buf;
	volatile uint32_t *dbrec;
	uint32_t cq_size;
	uint32_t cqe_size;
	uint32_t cqn;
	void *uar;
	volatile uint32_t *cons_idx;
};

struct hw_wq_data {
	void *buf;
	uint32_t wqe_cnt;
	uint32_t stride;
	volatile uint32_t *dbrec;
	struct hw_cq_data cq_data;
};

struct hw_rq_data {
	struct hw_wq_data wq_data;
	uint32_t *head;
	uint32_t *tail;
};

struct hw_sq_data {
	struct hw_wq_data wq_data;
	uint32_t sq_num;
	struct {
		void *reg;
		uint32_t size;
		uint32_t offset;
	} bf;
};

struct vma_mlx_hw_device_data {
	uint32_t valid_mask;
	struct dev_data dev_data;
	struct hw_sq_data sq_data;
	struct hw_rq_data rq_data;
};

/* What becomes of a packet that a callback has seen. */
typedef enum { VMA_PACKET_DROP = 0, VMA_PACKET_RECV = 1, VMA_PACKET_HOLD = 2 } vma_recv_callback_retval_t;

typedef vma_recv_callback_retval_t (*vma_recv_callback_t)(int fd, size_t sz_iov, struct iovec iov[], struct vma_info_t *vma_info, void *context);

/* The functions. Those of type int return -1 and set errno where nothing else is said. */
#pragma pack(push, 1)
struct vma_api_t {
	/* Has `callback` see each packet of a socket before it is received, in a thread of the program's that receives or waits; NULL ends that.
	 * EINVAL: no accelerated socket. */
	int (*register_recv_callback)(int s, vma_recv_callback_t callback, void *context);
	/* recvfrom() that leaves packets where they are: see MSG_VMA_ZCOPY. ENOBUFS: the buffer has no room for one packet's description. */
	int (*recvfrom_zcopy)(int s, void *buf, size_t len, int *flags, struct sockaddr *from, socklen_t *fromlen);
	/* Gives packets back. EINVAL: no accelerated socket; ENOENT: none of that socket's, or given back before. */
	int (*free_packets)(int s, struct vma_packet_t *pkts, size_t count);
	/* Puts a rule of libvma.conf in front of all others, for sockets that are not bound or connected yet. */
	int (*add_conf_rule)(const char *config_line);
	/* Whether sockets that a thread makes from here on are accelerated (1) or the kernel's (0). */
	int (*thread_offload)(int offload, pthread_t tid);
	/* Takes what has come to the sockets of a ring. */
	int (*socketxtreme_poll)(int fd, struct vma_completion_t *completions, unsigned int ncompletions, int flags);
	int (*get_socket_rings_num)(int fd);
	int (*get_socket_rings_fds)(int fd, int *ring_fds, int ring_fds_sz);
	int (*get_socket_tx_ring_fd)(int sock_fd, struct sockaddr *to, socklen_t tolen);
	int (*socketxtreme_free_vma_packets)(struct vma_packet_desc_t *packets, int num);
	int (*socketxtreme_ref_vma_buff)(struct vma_buff_t *buff);
	int (*socketxtreme_free_vma_buff)(struct vma_buff_t *buff);
	/* Writes the counters of a socket (0: of all) into the log, at a level from 0 (panic) to 8 (all). */
	int (*dump_fd_stats)(int fd, int log_level);
	int (*vma_add_ring_profile)(struct vma_ring_type_attr *profile, int *key);
	int (*get_socket_network_header)(int fd, void *ptr, uint16_t *len);
	int (*get_ring_direct_descriptors)(int fd, struct vma_mlx_hw_device_data *data);
	int (*register_memory_on_ring)(int fd, void *addr, size_t length, uint32_t *key);
	int (*deregister_memory_on_ring)(int fd, void *addr, size_t length);
	int (*vma_modify_ring)(struct vma_modify_ring_attr *mr_data);
	uint64_t vma_extra_supported_mask;
	int (*ioctl)(void *cmsg_hdr, size_t cmsg_len);
};
#pragma pack(pop)

/* The functions of the library that is preloaded; NULL without one. To be called once; there is nothing to give back. */
static inline struct vma_api_t *vma_get_api(void)
{
	struct vma_api_t *api = NULL;
	socklen_t len = sizeof(api);
	return getsockopt(-1, SOL_SOCKET, SO_VMA_GET_API, &api, &len) < 0 ? NULL : api;
}

#ifdef __cplusplus
}
#endif

#endif
