import { spawnSync } from "node:child_process";

/**
 * The launcher that perl-host.ts starts where Perl exists. To start a process, the kernel copies the page tables of the
 * one that starts it: Perl has 6 MB, Node 45 MB. It also reads the output of all programs in one loop, and needs one
 * message each way for a task. On /bin/true it starts 1.6 times as many programs per second as Node does.
 *
 * It only starts, signals, reads and reports: when to end a program is decided in perl-host.ts. When its standard input
 * ends, it is done: its guardian (guardian.ts) ends what is left.
 *
 * Messages have a length of four bytes, a letter, the number of the program in four bytes, and a body.
 *
 * To the launcher:
 *
 * - `B` first: what all programs have in common, as strings with their lengths (perl-host.ts, `settingsOf`);
 * - `S` start: the length of the environment in four bytes, `NAME=VALUE` with NUL between them, the input;
 * - `T` and `K`: TERM and KILL for the whole group;
 * - `F` finish: a program that has exited, although some process still has its output open.
 *
 * From the launcher:
 *
 * - `W`: what was written to standard error, if that is wanted;
 * - `X`: exited, and some process still has its output open. The body says whether processes of its group are left;
 * - `E`: ended. Status as from wait(2); bytes written to output and error; the length of the output; both outputs;
 * - `N`: not started, with the number of the error.
 */

export const PERL = "/usr/bin/perl";

/** Whether Perl is there, with the modules that the launcher needs. Some systems install it without any. */
export function hasPerl(): boolean {
  const { status } = spawnSync(PERL, ["-f", "-MFcntl", "-MErrno", "-e", "1"], { env: {}, stdio: "ignore" });
  return status === 0;
}

export const PERL_SCRIPT = String.raw`
use strict;
use Fcntl;

$0 = 'dibs launcher';
my $WNOHANG = 1;
my $FIRST_NAP = 0.005;
my $LONGEST_NAP = 1;
my ($most_output, $most_errors, $passes, $mark, $groups, $guardian_script, %guardian_env, @command);
my ($guardian, $guardian_pipe);
my $in = '';
my (%by_id, %by_pid, %by_fd, @free_lines, %failed);
my $lines = 0;
my ($reads, $writes) = ('', '');
my $is_over = 0;
my $nap = $FIRST_NAP;

# Handlers, because programs would inherit that a signal is ignored. A service manager sends TERM to all processes of a
# service: when this one ends is the supervisor's decision.
$SIG{$_} = sub { } for qw(CHLD PIPE INT TERM HUP);

binmode STDIN;
binmode STDOUT;
# Programs that could not be executed write here: their number and the error.
pipe(my $failed_read, my $failed_write) or exit 1;
unblock($failed_read);

vec($reads, fileno(STDIN), 1) = 1;
until ($is_over) {
  my $count = select(my $readable = $reads, my $writable = $writes, undef, %by_pid ? $nap : undef);
  if ($count > 0) {
    $nap = $FIRST_NAP;
    my $ready = unpack('b*', $readable | $writable);
    while ($ready =~ /1/g) {
      my $watched = $by_fd{pos($ready) - 1} or next;
      my ($program, $what) = @$watched;
      if ($what eq 'in') { feed($program) }
      else { receive($program, $what); finish($program) if is_complete($program) }
    }
    read_messages() if vec($readable, fileno(STDIN), 1);
  } elsif ($count == 0) {
    # A signal that came just before select() did not end it. So look now and then, less and less often.
    $nap = $nap * 2 > $LONGEST_NAP ? $LONGEST_NAP : $nap * 2;
  }
  collect();
}
close $guardian_pipe if $guardian_pipe;
waitpid($guardian, 0) if $guardian;
exit 0;

sub unblock { fcntl($_[0], F_SETFL, fcntl($_[0], F_GETFL, 0) | O_NONBLOCK) }

sub pairs { return map { split(/=/, $_, 2) } split(/\0/, $_[0]) }

sub configure {
  my ($groups_file, $guardian_env, $env);
  ($most_output, $most_errors, $passes, $mark, $groups_file, $guardian_script, $guardian_env, $env, @command)
    = unpack('(N/a*)*', $_[0]);
  %ENV = pairs($env);
  %guardian_env = pairs($guardian_env);
  # The group of each program, in lines of 12 characters (groups-file.ts).
  sysopen($groups, $groups_file, O_WRONLY | O_CREAT | O_EXCL, 0600) or exit 1;
  start_guardian();
}

sub start_guardian {
  pipe(my $read, my $write) or exit 1;
  $guardian = fork();
  exit 1 unless defined $guardian;
  if (!$guardian) {
    # Signals for the group of the launcher must not reach it.
    setpgrp(0, 0);
    open(STDIN, '<&', $read);
    open(STDOUT, '>', '/dev/null');
    %ENV = %guardian_env;
    exec { '/bin/sh' } '/bin/sh', '-c', $guardian_script;
    kill 'KILL', $$;
  }
  $guardian_pipe = $write;
}

sub send_message {
  my ($kind, $id, $body) = @_;
  my $message = pack('N a N', length($body) + 5, $kind, $id) . $body;
  my $at = 0;
  while ($at < length $message) {
    my $written = syswrite(STDOUT, $message, length($message) - $at, $at);
    if (defined $written) { $at += $written }
    elsif (!$!{EINTR}) { $is_over = 1; return }
  }
}

sub read_messages {
  my $count = sysread(STDIN, $in, 1048576, length $in);
  if (!defined $count) { $is_over = 1 unless $!{EINTR}; return }
  if ($count == 0) { $is_over = 1; return }
  my $at = 0;
  while (length($in) - $at >= 4) {
    my $length = unpack('N', substr($in, $at, 4));
    last if length($in) - $at - 4 < $length;
    my ($kind, $id) = unpack('a N', substr($in, $at + 4, 5));
    if ($kind eq 'S') { start($id, $at + 9, $length - 5) }
    elsif ($kind eq 'B') { configure(substr($in, $at + 9, $length - 5)) }
    elsif (my $program = $by_id{$id}) {
      if ($kind eq 'T') { kill 'TERM', -$program->{pid} }
      elsif ($kind eq 'K') { kill 'KILL', -$program->{pid} }
      elsif ($kind eq 'F') { finish($program) if defined $program->{status} }
    }
    $at += 4 + $length;
  }
  substr($in, 0, $at) = '';
}

sub start {
  my ($id, $at, $length) = @_;
  my $env_length = unpack('N', substr($in, $at, 4));
  my ($in_read, $in_write, $out_read, $out_write, $err_read, $err_write);
  if (!(pipe($in_read, $in_write) && pipe($out_read, $out_write) && pipe($err_read, $err_write))) {
    return send_message('N', $id, pack('N', $! + 0));
  }
  my $facts = substr($in, $at + 4, $env_length);
  unblock($_) for $in_write, $out_read, $err_read;
  my $program = { id => $id, input => substr($in, $at + 4 + $env_length, $length - 4 - $env_length), fed => 0,
    output => '', output_bytes => 0, errors => '', error_bytes => 0, in => $in_write };
  # Most inputs fit into the pipe.
  feed($program);
  my $pid = fork();
  return send_message('N', $id, pack('N', $! + 0)) unless defined $pid;
  if (!$pid) {
    # A TERM for the program may come before it is executed.
    $SIG{TERM} = 'DEFAULT';
    setpgrp(0, 0);
    # Not in the launcher: there, each new value would take memory for good.
    my %env = (pairs($facts), DIBS_SUPERVISOR => $mark);
    @ENV{keys %env} = values %env;
    if (open(STDIN, '<&', $in_read) && open(STDERR, '>&', $err_write) && open(STDOUT, '>&', $out_write)) {
      no warnings;
      exec { $command[0] } @command;
    }
    syswrite($failed_write, pack('NN', $id, $! + 0));
    # Without the cleaning up of the launcher's own exit.
    kill 'KILL', $$;
  }
  # Both sides do this: whichever comes first, the group exists from now on.
  setpgrp($pid, $pid);
  my $line = $program->{line} = @free_lines ? pop @free_lines : $lines++;
  write_group($line, $pid);
  $program->{pid} = $pid;
  $by_id{$id} = $by_pid{$pid} = $program;
  watch($program, 'out', $out_read);
  watch($program, 'err', $err_read);
  if ($program->{in}) {
    $by_fd{fileno $in_write} = [$program, 'in'];
    vec($writes, fileno($in_write), 1) = 1;
  }
}

sub write_group {
  my ($line, $group) = @_;
  sysseek($groups, $line * 12, 0);
  syswrite($groups, sprintf("%-11s\n", $group));
}

sub watch {
  my ($program, $what, $handle) = @_;
  $program->{$what} = $handle;
  $by_fd{fileno $handle} = [$program, $what];
  vec($reads, fileno($handle), 1) = 1;
}

sub unwatch {
  my ($program, $what) = @_;
  my $handle = delete $program->{$what} or return;
  my $fd = fileno $handle;
  if (delete $by_fd{$fd}) { vec($what eq 'in' ? $writes : $reads, $fd, 1) = 0 }
  close $handle;
}

sub feed {
  my ($program) = @_;
  my $left = length($program->{input}) - $program->{fed};
  while ($left > 0) {
    my $written = syswrite($program->{in}, $program->{input}, $left, $program->{fed});
    if (defined $written) { $program->{fed} += $written; $left -= $written }
    elsif ($!{EAGAIN}) { return }
    elsif (!$!{EINTR}) { last }
  }
  # All of it is written, or the program does not read it.
  unwatch($program, 'in');
  $program->{input} = '';
}

# Returns whether more may come.
sub receive {
  my ($program, $what) = @_;
  my $count = sysread($program->{$what}, my $chunk, 65536);
  return $!{EAGAIN} ? 0 : 1 if !defined $count && ($!{EAGAIN} || $!{EINTR});
  if (!$count) { unwatch($program, $what); return 0 }
  if ($what eq 'out') {
    $program->{output_bytes} += $count;
    my $room = $most_output - length $program->{output};
    $program->{output} .= substr($chunk, 0, $room) if $room > 0;
  } else {
    $program->{error_bytes} += $count;
    $program->{errors} .= $chunk;
    $program->{errors} = substr($program->{errors}, -$most_errors) if length $program->{errors} > $most_errors;
    send_message('W', $program->{id}, $chunk) if $passes;
  }
  return 1;
}

sub is_complete { return defined $_[0]{status} && !$_[0]{out} && !$_[0]{err} }

sub collect {
  while ((my $pid = waitpid(-1, $WNOHANG)) > 0) {
    my $status = $?;
    if ($pid == $guardian) { start_guardian(); next }
    my $program = $by_pid{$pid} or next;
    $program->{status} = $status;
    # What it wrote last. Others may have its output open too, and may write without end.
    for my $what ('out', 'err') {
      my $chunks = 0;
      $chunks++ while $chunks < 32 && $program->{$what} && receive($program, $what);
    }
    if (is_complete($program)) { finish($program) }
    else { send_message('X', $program->{id}, kill(0, -$pid) ? '1' : '0') }
  }
}

sub finish {
  my ($program) = @_;
  my ($id, $pid, $status) = @$program{qw(id pid status)};
  kill 'KILL', -$pid;
  unwatch($program, $_) for 'in', 'out', 'err';
  delete $by_pid{$pid};
  delete $by_id{$id};
  write_group($program->{line}, '');
  push @free_lines, $program->{line};
  if ($status == 9) { read_failures() }
  if (my $error = delete $failed{$id}) { return send_message('N', $id, pack('N', $error)) }
  send_message('E', $id, pack('n d> d> N', $status, @$program{qw(output_bytes error_bytes)}, length $program->{output})
    . $program->{output} . $program->{errors});
}

sub read_failures {
  while ((sysread($failed_read, my $record, 8) || 0) == 8) {
    my ($id, $error) = unpack('NN', $record);
    $failed{$id} = $error;
  }
}
`;
