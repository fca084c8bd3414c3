//! Pinning the calling thread to CPUs.

use rustix::thread::CpuSet;

use crate::error::Error;

/// The CPUs of a list like `0,2-4`, sorted and without repeats; `None` when the list is malformed.
pub fn parse_cpu_list(list: &str) -> Option<Vec<usize>> {
    let mut cpus = Vec::new();
    for part in list.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let first = parse_cpu(first)?;
        let last = parse_cpu(last)?;
        if first > last {
            return None;
        }
        cpus.extend(first..=last);
    }
    cpus.sort_unstable();
    cpus.dedup();
    Some(cpus)
}

/// Restricts the calling thread to `cpus`.
pub fn pin_current_thread(cpus: &[usize]) -> Result<(), Error> {
    let mut set = CpuSet::new();
    for &cpu in cpus {
        set.set(cpu);
    }
    rustix::thread::sched_setaffinity(None, &set).map_err(|errno| {
        Error::setup(
            format!("cannot set thread affinity to CPUs {cpus:?}"),
            errno,
        )
    })
}

/// The CPUs that the calling thread may use; empty when the system does not say.
pub fn current_cpus() -> Vec<usize> {
    rustix::thread::sched_getaffinity(None)
        .map(|set| {
            (0..CpuSet::MAX_CPU)
                .filter(|&cpu| set.is_set(cpu))
                .collect()
        })
        .unwrap_or_default()
}

fn parse_cpu(text: &str) -> Option<usize> {
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    digits
        .then(|| text.parse().ok())
        .flatten()
        .filter(|&cpu: &usize| cpu < CpuSet::MAX_CPU)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpu_list_forms() {
        assert_eq!(parse_cpu_list("3"), Some(vec![3]));
        assert_eq!(parse_cpu_list("0,2-4"), Some(vec![0, 2, 3, 4]));
        assert_eq!(parse_cpu_list("2-3,1,3"), Some(vec![1, 2, 3]));
        for bad in [
            "",
            ",",
            "1,",
            "a",
            "-1",
            "1-",
            "4-2",
            "1-2-3",
            " 1",
            "+1",
            "1024",
            "0-99999999999",
        ] {
            assert_eq!(parse_cpu_list(bad), None, "{bad:?}");
        }
    }

    #[test]
    fn pinning_restricts_the_thread() {
        std::thread::spawn(|| {
            let cpu = current_cpus()[0];
            pin_current_thread(&[cpu]).unwrap();
            assert_eq!(current_cpus(), [cpu]);
            let error = pin_current_thread(&[1023]).unwrap_err();
            assert!(error.to_string().contains("1023"), "{error}");
        })
        .join()
        .unwrap();
    }
}
