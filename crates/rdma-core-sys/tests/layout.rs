//! Sizes, offsets and numbers are those of the system's headers; versions of functions are those of
//! its library.

use std::fmt::Write as _;
use std::mem::{offset_of, size_of, size_of_val};
use std::process::Command;

use rdma_core_sys::*;

/// What a C program prints of the same names, and what Rust has.
#[derive(Default)]
struct Comparison {
    program: String,
    expected: String,
}

fn size_of_field<T, F>(_: impl Fn(*const T) -> *const F) -> usize {
    size_of::<F>()
}

macro_rules! structures {
    ($comparison:ident: $($name:ident { $($field:ident $(as $in_c:literal)?),* })*) => {$(
        let of_c = stringify!($name);
        writeln!($comparison.program, "P(\"{of_c} %zu\\n\", sizeof(struct {of_c}));").unwrap();
        writeln!($comparison.expected, "{of_c} {}", size_of::<$name>()).unwrap();
        $(
            let field = [$($in_c,)? stringify!($field).trim_start_matches("r#")][0];
            writeln!(
                $comparison.program,
                "P(\"{of_c}.{field} %zu %zu\\n\", offsetof(struct {of_c}, {field}), \
                 sizeof(((struct {of_c} *)0)->{field}));"
            )
            .unwrap();
            // SAFETY: no memory is read.
            let size = size_of_field(|it: *const $name| unsafe { &raw const (*it).$field });
            writeln!(
                $comparison.expected,
                "{of_c}.{field} {} {size}",
                offset_of!($name, $field)
            )
            .unwrap();
        )*
    )*};
}

macro_rules! numbers {
    ($comparison:ident: $($name:ident)*) => {$(
        let of_c = stringify!($name);
        writeln!($comparison.program, "P(\"{of_c} %lld\\n\", (long long){of_c});").unwrap();
        writeln!($comparison.expected, "{of_c} {}", $name).unwrap();
    )*};
}

fn add_structures(it: &mut Comparison) {
    structures! { it:
        ibv_device { ops as "_ops", node_type, transport_type, name, dev_name, dev_path, ibdev_path }
        ibv_context_ops { poll_cq, req_notify_cq, post_send, post_recv }
        ibv_context { device, ops, cmd_fd, async_fd, num_comp_vectors, mutex, abi_compat }
        ibv_values_ex { comp_mask, raw_clock }
        verbs_context { query_rt_values, query_device_ex, ibv_destroy_flow, ibv_create_flow, sz, context }
        ibv_async_event { element, event_type }
        ibv_device_attr {
            fw_ver, node_guid, sys_image_guid, max_mr_size, page_size_cap, vendor_id,
            vendor_part_id, hw_ver, max_qp, max_qp_wr, device_cap_flags, max_sge, max_sge_rd,
            max_cq, max_cqe, max_mr, max_pd, max_pkeys, local_ca_ack_delay, phys_port_cnt
        }
        ibv_tso_caps { max_tso, supported_qpts }
        ibv_device_attr_ex {
            orig_attr, comp_mask, odp_caps, completion_timestamp_mask, hca_core_clock,
            device_cap_flags_ex, tso_caps
        }
        ibv_pd { context, handle }
        ibv_mr { context, pd, addr, length, handle, lkey, rkey }
        ibv_comp_channel { context, fd, refcnt }
        ibv_cq {
            context, channel, cq_context, handle, cqe, mutex, cond, comp_events_completed,
            async_events_completed
        }
        ibv_qp {
            context, qp_context, pd, send_cq, recv_cq, srq, handle, qp_num, state, qp_type, mutex,
            cond, events_completed
        }
        ibv_qp_cap { max_send_wr, max_recv_wr, max_send_sge, max_recv_sge, max_inline_data }
        ibv_qp_init_attr { qp_context, send_cq, recv_cq, srq, cap, qp_type, sq_sig_all }
        ibv_global_route { dgid, flow_label, sgid_index, hop_limit, traffic_class }
        ibv_ah_attr { grh, dlid, sl, src_path_bits, static_rate, is_global, port_num }
        ibv_qp_attr {
            qp_state, cur_qp_state, path_mtu, path_mig_state, qkey, rq_psn, sq_psn, dest_qp_num,
            qp_access_flags, cap, ah_attr, alt_ah_attr, pkey_index, alt_pkey_index,
            en_sqd_async_notify, sq_draining, max_rd_atomic, max_dest_rd_atomic, min_rnr_timer,
            port_num, timeout, retry_cnt, rnr_retry, alt_port_num, alt_timeout, rate_limit
        }
        ibv_sge { addr, length, lkey }
        ibv_recv_wr { wr_id, next, sg_list, num_sge }
        ibv_send_wr {
            wr_id, next, sg_list, num_sge, opcode, send_flags, imm_data, wr, qp_type, bind_mw
        }
        ibv_wc {
            wr_id, status, opcode, vendor_err, byte_len, imm_data, qp_num, src_qp, wc_flags,
            pkey_index, slid, sl, dlid_path_bits
        }
        ibv_flow { comp_mask, context, handle }
        ibv_flow_attr { comp_mask, r#type, size, priority, num_of_specs, port, flags }
        ibv_flow_eth_filter { dst_mac, src_mac, ether_type, vlan_tag }
        ibv_flow_spec_eth { r#type, size, val, mask }
        ibv_flow_ipv4_filter { src_ip, dst_ip }
        ibv_flow_spec_ipv4 { r#type, size, val, mask }
        ibv_flow_ipv6_filter {
            src_ip, dst_ip, flow_label, next_hdr, traffic_class, hop_limit
        }
        ibv_flow_spec_ipv6 { r#type, size, val, mask }
        ibv_flow_tcp_udp_filter { dst_port, src_port }
        ibv_flow_spec_tcp_udp { r#type, size, val, mask }
    }
}

fn add_structures_of_mlx5(it: &mut Comparison) {
    structures! { it:
        mlx5dv_qp {
            dbrec, sq, rq, bf, comp_mask, uar_mmap_offset, tirn, tisn, rqn, sqn, tir_icm_addr
        }
        mlx5dv_cq { buf, dbrec, cqe_cnt, cqe_size, cq_uar, cqn, comp_mask }
        mlx5dv_obj { qp_in as "qp.in", qp_out as "qp.out", cq_in as "cq.in", cq_out as "cq.out" }
        mlx5dv_clock_info { nsec, last_cycles, frac, mult, shift, mask }
        mlx5_cqe64 {
            hds_ip_ext, l4_hdr_type_etc, vlan_info, srqn_uidx, imm_inval_pkey, app, app_op,
            app_info, byte_cnt, timestamp, sop_drop_qpn, wqe_counter, signature, op_own
        }
        mlx5_wqe_ctrl_seg {
            opmod_idx_opcode, qpn_ds, signature, dci_stream_channel_id, fm_ce_se, imm
        }
        mlx5_wqe_eth_seg {
            rsvd0, cs_flags, rsvd1, mss, rsvd2, inline_hdr_sz, inline_hdr_start, inline_hdr
        }
        mlx5_wqe_data_seg { byte_count, lkey, addr }
    }
}

fn add_numbers(it: &mut Comparison) {
    numbers! { it:
        IBV_QPT_RAW_PACKET IBV_QPS_RESET IBV_QPS_INIT IBV_QPS_RTR IBV_QPS_RTS IBV_QPS_ERR
        IBV_QP_STATE IBV_QP_PORT IBV_ACCESS_LOCAL_WRITE IBV_WR_SEND IBV_SEND_SIGNALED
        IBV_SEND_INLINE IBV_SEND_IP_CSUM IBV_WC_SUCCESS IBV_WC_LOC_LEN_ERR IBV_WC_LOC_PROT_ERR
        IBV_WC_WR_FLUSH_ERR IBV_WC_SEND IBV_WC_RECV IBV_WC_IP_CSUM_OK IBV_DEVICE_RAW_IP_CSUM
        IBV_EVENT_CQ_ERR IBV_EVENT_QP_FATAL IBV_EVENT_DEVICE_FATAL IBV_EVENT_PORT_ACTIVE IBV_EVENT_PORT_ERR
        IBV_DEVICE_MANAGED_FLOW_STEERING IBV_FLOW_ATTR_NORMAL IBV_FLOW_SPEC_ETH
        IBV_FLOW_SPEC_IPV4 IBV_FLOW_SPEC_IPV6 IBV_FLOW_SPEC_TCP IBV_FLOW_SPEC_UDP
        IBV_SYSFS_NAME_MAX IBV_SYSFS_PATH_MAX IBV_VALUES_MASK_RAW_CLOCK
        MLX5DV_OBJ_QP MLX5DV_OBJ_CQ MLX5_RCV_DBR MLX5_SND_DBR MLX5_CQ_DOORBELL MLX5_CQ_DB_REQ_NOT
        MLX5_SEND_WQE_BB MLX5_OPCODE_NOP MLX5_OPCODE_SEND MLX5_OPCODE_TSO MLX5_WQE_CTRL_CQ_UPDATE MLX5_INLINE_SEG
        MLX5_ETH_WQE_L3_CSUM MLX5_ETH_WQE_L4_CSUM MLX5_CQE_REQ MLX5_CQE_RESP_SEND MLX5_CQE_REQ_ERR
        MLX5_CQE_RESP_ERR MLX5_CQE_INVALID MLX5_CQE_OWNER_MASK MLX5_CQE_L3_OK MLX5_CQE_L4_OK
    }
}

#[test]
fn structures_and_numbers_are_those_of_the_headers() {
    testkit::or_skip!(testkit::needs::require(&["header:infiniband/verbs.h"]));
    let mut comparison = Comparison::default();
    add_structures(&mut comparison);
    add_structures_of_mlx5(&mut comparison);
    add_numbers(&mut comparison);
    let directory = std::env::temp_dir().join(format!("verbs-layout-{}", std::process::id()));
    std::fs::create_dir_all(&directory).unwrap();
    let source = directory.join("layout.c");
    let text = format!(
        "#include <infiniband/mlx5dv.h>\n#include <stddef.h>\n#include <stdio.h>\n\
         #define P(...) printf(__VA_ARGS__)\nint main(void)\n{{\n{}return 0;\n}}\n",
        comparison.program
    );
    std::fs::write(&source, text).unwrap();
    let program = testkit::compile_c_with(&source, &directory, &[]).unwrap();
    let output = Command::new(program).output().unwrap();
    std::fs::remove_dir_all(&directory).unwrap();
    let of_c = String::from_utf8(output.stdout).unwrap();
    let different: Vec<_> = comparison
        .expected
        .lines()
        .zip(of_c.lines())
        .filter(|(rust, c)| rust != c)
        .collect();
    assert_eq!(different, Vec::<(&str, &str)>::new(), "of Rust, and of C");
    assert_eq!(of_c.lines().count(), comparison.expected.lines().count());
}

/// A change of one of them would be a call with another prototype.
#[test]
fn the_systems_libraries_have_each_function_in_its_version() {
    testkit::or_skip!(testkit::needs::require(&["header:infiniband/verbs.h"]));
    let verbs = Verbs::load().unwrap();
    assert_eq!(
        size_of_val(&verbs),
        Verbs::SYMBOLS.len() * size_of::<usize>()
    );
    let mlx5 = Mlx5::load().unwrap();
    assert_eq!(size_of_val(&mlx5), Mlx5::SYMBOLS.len() * size_of::<usize>());
    // SAFETY: the function takes any number.
    let text = unsafe { (verbs.ibv_wc_status_str)(IBV_WC_SUCCESS) };
    // SAFETY: it answers with a text.
    assert_eq!(unsafe { std::ffi::CStr::from_ptr(text) }, c"success");
}
