//! Functions of up to eight arguments.

/// Calls a macro with the names of the arguments, for each number of them.
macro_rules! each_arity {
    ($each:ident) => {
        $each! {
            ()
            (A)
            (A B)
            (A B C)
            (A B C D)
            (A B C D E)
            (A B C D E G)
            (A B C D E G H)
            (A B C D E G H I)
        }
    };
}
