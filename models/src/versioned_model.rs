use std::sync::Arc;

use loom::thread;

use crate::every_order;
use crate::versioned::Versioned;

#[test]
fn words_are_never_torn() {
    every_order(3, || {
        let versioned = Arc::new(Versioned::default());
        let writer = {
            let versioned = Arc::clone(&versioned);
            thread::spawn(move || {
                for number in 1..=3 {
                    versioned.store([number; 3]);
                }
            })
        };
        if let Some([first, second, third]) = versioned.load() {
            assert!(first == second && second == third);
        }
        writer.join().unwrap();
        assert_eq!(versioned.load(), Some([3; 3]));
    });
}
