/**
 * Of servers in tests, in milliseconds. Node closes an idle connection after 5 s. Where the clock of a busy process jumps
 * by that, the next request is sent into a connection that is just being closed.
 */
export const keepAliveTimeout = 75_000;
