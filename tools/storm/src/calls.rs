//! One failing system call at a time.
