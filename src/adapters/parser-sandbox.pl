# Runs a program that reads hostile bytes so that it reaches only the files it needs, and no network.
#
# Usage: perl -w parser-sandbox.pl x64|arm64 [--read PATH]... [--write PATH]... [--unix-sockets] [--child-processes]
#        -- PROGRAM [ARGUMENT]...
#
# The process restricts itself and then becomes the program: process id, limits, signals and exit code are the program's.
# A path stands for everything below it. A path to read that does not exist is skipped.
#   Landlock   read and execute below --read, everything below --write. It also denies access to processes outside of the
#              sandbox (/proc/<pid>/environ, ptrace) and, since Linux 6.12, signals to them.
#              https://docs.kernel.org/userspace-api/landlock.html
#   seccomp    denies what Landlock does not control: sockets, changes to the metadata of files, limits and priorities of
#              other processes, System V IPC, new sessions and process groups, and new processes, which would escape the
#              limits of the first one and outlive it; being traced, which would let a stopped process look like one that
#              has ended; and signals to any other process, also by fcntl, which Linux before 6.12 would allow.
#              --child-processes allows processes, inside of the process group, and signals; threads are always
#              allowed. --unix-sockets allows local stream sockets below --write, but no
#              connection to a socket that has a name.
#              https://docs.kernel.org/userspace-api/seccomp_filter.html
# Neither needs a privilege or a namespace, so both work in containers. setpriv of util-linux 2.41 could do most of it;
# Debian 12 and Ubuntu 24.04 have an older one. See docs/adr/0035.
# Every further module would cost each document some milliseconds; -w stands for `use warnings`.
use strict;

my $FAILED = 125;

# System calls by their numbers in <asm/unistd.h>. Those from 424 on are the same on every architecture.
my ($LANDLOCK_CREATE_RULESET, $LANDLOCK_ADD_RULE, $LANDLOCK_RESTRICT_SELF) = (444, 445, 446);
# pidfd_send_signal, io_uring_setup (it can open sockets), fchmodat2, setxattrat, removexattrat, file_setattr
my @DENIED_EVERYWHERE = (424, 425, 452, 463, 466, 469);
my %ARCHITECTURES = (
    x64 => {
        audit  => 0xC000003E,
        prctl  => 157,
        socket => 41,
        socketpair => 53,
        access => { number => 21, mode_argument => 1 },
        forks  => [57, 58],    # fork, vfork
        clone  => 56,
        fcntl  => 72,
        # kill, tgkill, rt_sigqueueinfo, rt_tgsigqueueinfo
        signals => [62, 234, 129, 297],
        # connect; truncate; chmod, fchmod, fchmodat; chown, fchown, lchown, fchownat; setxattr, lsetxattr, fsetxattr;
        # removexattr, lremovexattr, fremovexattr; utime, utimes, futimesat, utimensat
        denied => [
            42, 76, 90, 91, 268, 92, 93, 94, 260, 188, 189, 190, 197, 198, 199, 132, 235, 261, 280,
            # setpriority, ioprio_set; sched_setparam, sched_setscheduler, sched_setaffinity, sched_setattr;
            # migrate_pages, move_pages; shmget, semget, msgget, mq_open; setpgid, setsid; tkill; ptrace;
            # inotify_add_watch (names of files that cannot be read)
            141, 251, 142, 144, 203, 314, 256, 279, 29, 64, 68, 240, 109, 112, 200, 101, 254,
        ],
        prlimit => 302,
    },
    arm64 => {
        audit  => 0xC00000B7,
        prctl  => 167,
        socket => 198,
        socketpair => 199,
        # faccessat, which access(3) calls here
        access => { number => 48, mode_argument => 2 },
        forks  => [],
        clone  => 220,
        fcntl  => 25,
        # kill, tgkill, rt_sigqueueinfo, rt_tgsigqueueinfo
        signals => [129, 131, 138, 240],
        # connect; truncate; fchmod, fchmodat; fchown, fchownat; setxattr, lsetxattr, fsetxattr;
        # removexattr, lremovexattr, fremovexattr; utimensat
        denied => [
            203, 45, 52, 53, 55, 54, 5, 6, 7, 14, 15, 16, 88,
            # setpriority, ioprio_set; sched_setparam, sched_setscheduler, sched_setaffinity, sched_setattr;
            # migrate_pages, move_pages; shmget, semget, msgget, mq_open; setpgid, setsid; tkill; ptrace;
            # inotify_add_watch (names of files that cannot be read)
            140, 30, 118, 119, 122, 274, 238, 239, 194, 190, 186, 180, 154, 157, 130, 117, 27,
        ],
        prlimit => 261,
    },
);

my $machine = shift // '';
my $architecture = $ARCHITECTURES{$machine} or fail("the processor architecture ($machine) is not supported");

my (@readable, @writable, $has_unix_sockets, $has_child_processes);
while (@ARGV and (my $option = shift) ne '--') {
    if ($option eq '--unix-sockets')    { $has_unix_sockets    = 1; next }
    if ($option eq '--child-processes') { $has_child_processes = 1; next }
    my $path = shift // fail("$option needs a path");
    if    ($option eq '--read')  { push @readable, $path }
    elsif ($option eq '--write') { push @writable, $path }
    else                         { fail("unknown option $option") }
}
@ARGV or fail('no program');

# <linux/prctl.h>
my ($SET_PDEATHSIG, $CAPBSET_READ, $CAPBSET_DROP, $SET_SECCOMP, $SET_NO_NEW_PRIVS) = (1, 23, 24, 22, 38);
my $SIGKILL = 9;
prctl('PR_SET_PDEATHSIG', $SET_PDEATHSIG, $SIGKILL);
drop_capabilities() if $> == 0;
prctl('PR_SET_NO_NEW_PRIVS', $SET_NO_NEW_PRIVS, 1);
restrict_files();
restrict_system_calls();
exec { $ARGV[0] } @ARGV or fail("$ARGV[0]: $!");

# What the bounding set lacks, a program of root does not get. Without CAP_SETPCAP there is nothing to drop.
sub drop_capabilities {
    for (my $capability = 0; syscall($architecture->{prctl}, $CAPBSET_READ, $capability, 0, 0, 0) >= 0; $capability++) {
        syscall($architecture->{prctl}, $CAPBSET_DROP, $capability, 0, 0, 0);
    }
}

sub restrict_files {
    my $VERSION_FLAG = 1;
    my $version = syscall($LANDLOCK_CREATE_RULESET, 0, 0, $VERSION_FLAG);
    $version > 0 or fail("the kernel has no Landlock ($!)");
    # <linux/landlock.h>. Bits 0 to 12 are in every version; REFER, TRUNCATE and IOCTL_DEV came later.
    my ($EXECUTE, $WRITE_FILE, $READ_FILE, $READ_DIR, $TRUNCATE) = map { 1 << $_ } (0, 1, 2, 3, 14);
    my $all = (1 << 13) - 1;
    $all |= 1 << 13   if $version >= 2;
    $all |= $TRUNCATE if $version >= 3;
    $all |= 1 << 15   if $version >= 5;
    # Bind and connect by TCP; abstract Unix sockets and signals.
    my $network = $version >= 4 ? 3 : 0;
    my $scoped  = $version >= 6 ? 3 : 0;
    my $attributes = pack('Q3', $all, $network, $scoped);
    my $ruleset = syscall($LANDLOCK_CREATE_RULESET, $attributes, length $attributes, 0);
    $ruleset >= 0 or fail("landlock_create_ruleset: $!");

    my $of_files = ($EXECUTE | $WRITE_FILE | $READ_FILE | $TRUNCATE) & $all;
    my $allow = sub {
        my ($path, $rights) = @_;
        open(my $file, '<', $path) or return 0;
        $rights &= $of_files unless -d $file;
        my $PATH_BENEATH = 1;
        my $rule = pack('Q l', $rights, fileno $file);
        syscall($LANDLOCK_ADD_RULE, $ruleset, $PATH_BENEATH, $rule, 0) == 0 or fail("landlock_add_rule, $path: $!");
        return 1;
    };
    $allow->($_, $EXECUTE | $READ_FILE | $READ_DIR) for @readable;
    $allow->('/dev/null', $READ_FILE | $WRITE_FILE);
    $allow->($_, $all) or fail("$_: $!") for @writable;
    syscall($LANDLOCK_RESTRICT_SELF, $ruleset, 0) == 0 or fail("landlock_restrict_self: $!");
}

sub restrict_system_calls {
    # <linux/filter.h>, and struct seccomp_data of <linux/seccomp.h>: number, architecture, ..., arguments from 16 on.
    my ($LOAD, $AND, $EQUAL, $AT_LEAST, $HAS_BITS, $RETURN) = (0x20, 0x54, 0x15, 0x35, 0x45, 0x06);
    my ($NUMBER, $ARCHITECTURE, $FIRST_ARGUMENT) = (0, 4, 16);
    my ($ALLOW, $KILL, $ERROR) = (0x7FFF0000, 0x80000000, 0x00050000);
    my ($NOT_PERMITTED, $REFUSE, $NO_SUCH_CALL) = map { $ERROR | $_ } (1, 13, 38);    # EPERM, EACCES, ENOSYS
    my $FIRST_OF_X32 = 0x40000000;
    my ($UNIX, $STREAM, $TYPE_MASK, $W_OK) = (1, 1, 0xF, 2);

    # A jump counts the instructions that it skips, when the comparison is true and when it is false.
    my @only_local_streams = (
        [$LOAD, 0, 0, $FIRST_ARGUMENT],
        [$EQUAL, 0, 4, $UNIX],
        # Datagrams would reach sockets with a name without connecting to them.
        [$LOAD, 0, 0, $FIRST_ARGUMENT + 8],
        [$AND, 0, 0, $TYPE_MASK],
        [$EQUAL, 0, 1, $STREAM],
        [$RETURN, 0, 0, $ALLOW],
        [$RETURN, 0, 0, $REFUSE],
    );
    my @end = (
        [$EQUAL, 1, 0, $architecture->{socket}],
        [$RETURN, 0, 0, $ALLOW],
        [$RETURN, 0, 0, $REFUSE],
    );
    # LibreOffice listens at a socket in /tmp, which it may not remove there. If access(2) finds that /tmp cannot be
    # written, it listens in OSL_SOCKET_PATH.
    my $access = $architecture->{access};
    @end = (
        [$EQUAL, 0, 2, $access->{number}],
        [$LOAD, 0, 0, $FIRST_ARGUMENT + 8 * $access->{mode_argument}],
        [$EQUAL, 7, 6, $W_OK],
        [$EQUAL, 0, 5, $architecture->{socket}],
        @only_local_streams,
    ) if $has_unix_sockets;
    my ($CLONE3, $CLONE_THREAD) = (435, 0x10000);
    my @no_child_processes = (
        (map { ([$EQUAL, 0, 1, $_], [$RETURN, 0, 0, $NOT_PERMITTED]) } @{ $architecture->{forks} }),
        # The flags of clone3 are in memory, which a filter cannot read. C libraries start threads by clone where a kernel
        # has no clone3.
        [$EQUAL, 0, 1, $CLONE3],
        [$RETURN, 0, 0, $NO_SUCH_CALL],
        [$EQUAL, 0, 4, $architecture->{clone}],
        [$LOAD, 0, 0, $FIRST_ARGUMENT],
        [$HAS_BITS, 0, 1, $CLONE_THREAD],
        [$RETURN, 0, 0, $ALLOW],
        [$RETURN, 0, 0, $NOT_PERMITTED],
    );
    my @only_own_signals = map { (
        [$EQUAL, 0, 4, $_],
        [$LOAD, 0, 0, $FIRST_ARGUMENT],
        # What this process becomes keeps its id.
        [$EQUAL, 0, 1, $$],
        [$RETURN, 0, 0, $ALLOW],
        [$RETURN, 0, 0, $REFUSE],
    ) } @{ $architecture->{signals} };
    # Whom the kernel tells by a signal that a file is ready: F_SETOWN, F_SETSIG, F_SETOWN_EX.
    my @no_signals_by_files = (
        [$EQUAL, 0, 6, $architecture->{fcntl}],
        [$LOAD, 0, 0, $FIRST_ARGUMENT + 8],
        [$EQUAL, 3, 0, 8],
        [$EQUAL, 2, 0, 10],
        [$EQUAL, 1, 0, 15],
        [$RETURN, 0, 0, $ALLOW],
        [$RETURN, 0, 0, $REFUSE],
    );
    my @denied = ([$AT_LEAST, $FIRST_OF_X32], map { [$EQUAL, $_] } @{ $architecture->{denied} }, @DENIED_EVERYWHERE);
    my @program = (
        # The numbers of another architecture mean other calls.
        [$LOAD, 0, 0, $ARCHITECTURE],
        [$EQUAL, 1, 0, $architecture->{audit}],
        [$RETURN, 0, 0, $KILL],
        [$LOAD, 0, 0, $NUMBER],
        # Limits of the process itself only, whose id is given as 0.
        [$EQUAL, 0, 4, $architecture->{prlimit}],
        [$LOAD, 0, 0, $FIRST_ARGUMENT],
        [$EQUAL, 1, 0, 0],
        [$RETURN, 0, 0, $REFUSE],
        [$RETURN, 0, 0, $ALLOW],
        # A pair is connected from the start, but what has datagrams can send them elsewhere.
        [$EQUAL, 0, scalar @only_local_streams, $architecture->{socketpair}],
        @only_local_streams,
        ($has_child_processes ? () : (@only_own_signals, @no_signals_by_files, @no_child_processes)),
        # Each skips to the refusal, which is the last instruction.
        (map { [$denied[$_][0], $#denied - $_ + $#end, 0, $denied[$_][1]] } 0 .. $#denied),
        @end,
    );
    my $filters = join '', map { pack 'S C C L', @$_ } @program;
    my $FILTER_MODE = 2;
    prctl('PR_SET_SECCOMP', $SET_SECCOMP, $FILTER_MODE, pack('S x6 P', scalar @program, $filters));
}

sub prctl {
    my ($name, $operation, @values) = @_;
    push @values, 0 while @values < 4;
    syscall($architecture->{prctl}, $operation, @values) == 0 or fail("$name: $!");
}

sub fail {
    print STDERR "sandbox: @_\n";
    exit $FAILED;
}
