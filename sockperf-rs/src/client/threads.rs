//! Many threads, each with sockets, numbers and a rate of its own.

use std::thread;

use crate::client::run::{Recording, Test};
use crate::error::Error;
use crate::net::open::Endpoint;
use crate::options::ClientOptions;

/// Shares the sockets out; a thread without a socket is none.
pub fn shares(endpoints: Vec<Endpoint>, threads: usize) -> Vec<Vec<Endpoint>> {
    let mut shares: Vec<Vec<Endpoint>> = Vec::new();
    for (index, endpoint) in endpoints.into_iter().enumerate() {
        match shares.get_mut(index % threads.max(1)) {
            Some(share) => share.push(endpoint),
            None => shares.push(vec![endpoint]),
        }
    }
    shares
}

/// The options of each thread: together the threads send at the rate that was asked for.
pub fn options(options: &ClientOptions, threads: usize) -> Vec<ClientOptions> {
    let threads = u32::try_from(threads).unwrap_or(u32::MAX);
    (0..threads)
        .map(|index| ClientOptions {
            messages_per_second: options
                .messages_per_second
                .map(|rate| rate / threads + u32::from(index < rate % threads)),
            seed: options.seed.wrapping_add(u64::from(index)),
            ..options.clone()
        })
        .collect()
}

/// Runs each test in a thread, the first one in this. If one fails, all end.
pub fn run<T: Send>(
    tests: Vec<(Test<'_>, Recording)>,
    run: impl Fn(&mut Test<'_>, Recording) -> Result<T, Error> + Sync,
) -> Result<Vec<T>, Error> {
    let run = |(mut test, recording): (Test<'_>, Recording)| {
        run(&mut test, recording).inspect_err(|_| test.stop.request())
    };
    let run = &run;
    let mut tests = tests.into_iter();
    let Some(first) = tests.next() else {
        return Ok(Vec::new());
    };
    thread::scope(|scope| {
        let others: Vec<_> = tests.map(|test| scope.spawn(move || run(test))).collect();
        // Last, because a thread that pins itself leaves its CPUs to those that it makes.
        let first = run(first);
        let joined = others.into_iter().map(|thread| {
            let result = thread.join();
            result.map_err(|_| Error::NoResult("a thread of the client failed".to_owned()))?
        });
        let results: Vec<Result<T, Error>> = [first].into_iter().chain(joined).collect();
        results.into_iter().collect()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::report::tests::pp_options;

    #[test]
    fn rates_add_up() {
        let all = options(&pp_options("--mps 1001 --threads 3"), 3);
        let rates: Vec<_> = all.iter().map(|it| it.messages_per_second).collect();
        assert_eq!(rates, [Some(334), Some(334), Some(333)]);
        assert_eq!(all.iter().map(|it| it.seed).collect::<Vec<_>>(), [1, 2, 3]);
        let unpaced = options(&pp_options("--threads 2"), 2);
        assert!(unpaced.iter().all(|it| it.messages_per_second.is_none()));
    }
}
