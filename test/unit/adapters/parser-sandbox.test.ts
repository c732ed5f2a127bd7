import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import { createSocket } from 'node:dgram';
import { once } from 'node:events';
import { mkdir, mkdtemp, readFile, rm, stat, writeFile } from 'node:fs/promises';
import { type AddressInfo, createServer } from 'node:net';
import { release, tmpdir } from 'node:os';
import { join } from 'node:path';
import { PassThrough } from 'node:stream';
import { expect } from 'chai';
import { createAvatarImageMaker } from '#src/adapters/converter/avatar/avatar-maker.ts';
import { defaultConversionProcessLimits } from '#src/adapters/converter/conversion-limits.ts';
import { createConverter } from '#src/adapters/converter/converter.ts';
import { renderPdfPageImages } from '#src/adapters/converter/formats/pdf.ts';
import { createParserSandbox, type ParserSandbox, type SandboxPermissions } from '#src/adapters/parser-sandbox.ts';
import { createLibreOfficeRenderer } from '#src/adapters/pdf-renderer/libreoffice.ts';
import { createMathTool } from '#src/adapters/tools/built-in-executors.ts';
import { skip } from '#test/support/skip.ts';
import { toolContext } from '#test/support/tool-context.ts';

/**
 * Escape attempts of a hijacked native library. Run under the parser's sandbox rules, but without Node's permission model,
 * which does not restrict native code. Prints the names of successful attempts.
 */
async function tryToEscape(places: Places) {
  const fs = await import('node:fs');
  const net = await import('node:net');
  const dgram = await import('node:dgram');
  const os = await import('node:os');
  const { spawnSync } = await import('node:child_process');
  const run = (program: string, args: string[]) => {
    const { status } = spawnSync(program, args, { env: { PATH: '/usr/bin:/bin' } });
    if (status !== 0) throw new Error('refused');
  };
  const connect = (address: import('node:net').NetConnectOpts) =>
    new Promise((resolve, reject) => {
      const socket = net.connect(address, () => resolve(socket.destroy()));
      socket.once('error', reject);
    });
  const send = (port: number) =>
    new Promise<void>((resolve, reject) => {
      const socket = dgram.createSocket('udp4').once('error', reject);
      socket.send('secret', port, '127.0.0.1', (error) => (error ? reject(error) : resolve(void socket.close())));
    });
  const attempts: Record<string, () => unknown> = {
    'environment of the parent': () => fs.readFileSync(`/proc/${process.ppid}/environ`),
    'environment of another process': () => fs.readFileSync('/proc/1/environ'),
    'memory of the parent': () => fs.openSync(`/proc/${process.ppid}/mem`, 'r'),
    'file system of the parent': () => fs.readdirSync(`/proc/${process.ppid}/root/`),
    'list of processes': () => fs.readdirSync('/proc'),
    'list of documents': () => fs.readdirSync(places.folder),
    'document of another': () => fs.readFileSync(places.other),
    'rights of another document': () => fs.chmodSync(places.other, 0o777),
    'time of another document': () => fs.utimesSync(places.other, 1, 1),
    'length of another document': () => fs.truncateSync(places.other, 0),
    'removal of another document': () => fs.unlinkSync(places.other),
    'new file beside the documents': () => fs.writeFileSync(`${places.folder}/new`, 'new'),
    'new file in /tmp': () => fs.writeFileSync(`${places.folder}-new`, 'new'),
    'accounts of the machine': () => fs.readFileSync('/etc/passwd'),
    'settings of the project': () => fs.readFileSync(places.project),
    'port on this machine': () => connect({ host: '127.0.0.1', port: places.port }),
    'metadata of the cloud': () => connect({ host: '169.254.169.254', port: 80 }),
    'datagram to this machine': () => send(places.udpPort),
    'local socket': () => connect({ path: places.socket }),
    'datagram to a local socket': () => run('perl', ['-e', places.sendDatagram, places.datagramSocket]),
    'signal to the parent': () => process.kill(process.ppid, 0),
    'priority of the parent': () => os.setPriority(process.ppid, os.getPriority(process.ppid)),
    'limits of the parent': () => run('prlimit', ['--nofile', '--pid', String(process.ppid)]),
    'shared memory': () => run('ipcmk', ['--queue']),
    'session of its own': () => run('setsid', ['true']),
    'process group of its own': () => run('perl', ['-e', 'setpgrp(0, 0) or exit 1']),
    'child process': () => run('true', []),
  };
  const succeeded: string[] = [];
  for (const name of places.attempts ?? Object.keys(attempts)) {
    try {
      await attempts[name]?.();
      succeeded.push(name);
    } catch {
      // Refused.
    }
  }
  process.stdout.write(JSON.stringify(succeeded));
}

type Places = Record<'folder' | 'other' | 'project' | 'socket' | 'datagramSocket' | 'sendDatagram', string> &
  Record<'port' | 'udpPort', number> & { attempts?: string[] };

/** In Perl, because Node has no local datagrams. 1 is AF_UNIX, 2 is SOCK_DGRAM. A pair needs neither socket() nor connect(). */
const sendDatagram = 'socketpair(A, B, 1, 2, 0) && defined send(A, "secret", 0, pack("S a*", 1, $ARGV[0])) or exit 1';
const receiveDatagrams = `
  socket(S, 1, 2, 0) && bind(S, pack("S a*", 1, $ARGV[0])) or exit 1;
  syswrite STDOUT, "bound";
  1 while defined recv(S, $data, 100, 0)`;

/** From this Linux version on, Landlock also blocks signals of child processes to the outside. */
const [major = 0, minor = 0] = release().split('.').map(Number);
const canSignal = major < 6 || (major === 6 && minor < 12) ? ['signal to the parent'] : [];

describe('the parser sandbox', () => {
  const { signal } = new AbortController();
  const server = createServer();
  const localServer = createServer();
  const udp = createSocket('udp4');
  let datagramServer: ChildProcess | undefined;
  let real: ParserSandbox;
  let root: string;
  let places: Places;
  let own: string;

  before(async function () {
    real = createParserSandbox('auto');
    if (real.missing !== null) return skip(this, 'no Landlock');
    root = await mkdtemp(join(tmpdir(), 'sandbox-'));
    const folder = join(root, 'documents');
    await mkdir(folder);
    server.listen(0, '127.0.0.1');
    localServer.listen(join(root, 'socket'));
    udp.bind(0, '127.0.0.1');
    await Promise.all([once(server, 'listening'), once(localServer, 'listening'), once(udp, 'listening')]);
    const datagramSocket = join(root, 'datagrams');
    datagramServer = spawn('perl', ['-e', receiveDatagrams, datagramSocket], { stdio: ['ignore', 'pipe', 'inherit'] });
    if (datagramServer.stdout) await once(datagramServer.stdout, 'data');
    places = {
      folder,
      other: join(folder, 'other.txt'),
      project: join(import.meta.dirname, '../../../.env.example'),
      port: (server.address() as AddressInfo).port,
      udpPort: udp.address().port,
      socket: join(root, 'socket'),
      datagramSocket,
      sendDatagram,
    };
    own = join(folder, 'own.pdf');
    await writeFile(own, 'mine %%EOF');
    await writeFile(places.other, 'the other one');
  });
  after(async () => {
    server.close();
    localServer.close();
    udp.unref();
    datagramServer?.kill();
    if (root) await rm(root, { recursive: true });
  });

  function attempt(sandbox: ParserSandbox, access: SandboxPermissions, attempts?: string[]): string[] {
    const code = `(${tryToEscape})(${JSON.stringify({ ...places, attempts })})`;
    const [program, ...args] = sandbox.confine([process.execPath, '-e', code], access);
    // The kernel accepts connections while this process waits.
    const { stdout, stderr } = spawnSync(program, args, { env: {}, cwd: '/', encoding: 'utf8' });
    return stdout === '' ? [`did not run: ${stderr}`] : JSON.parse(stdout);
  }

  /** Starts a parser, but with a program that tries to escape in its place. @returns the successful attempts per program */
  async function escapesOf(start: (sandbox: ParserSandbox) => Promise<unknown>): Promise<string[][]> {
    const escapes: string[][] = [];
    const confine: ParserSandbox['confine'] = (_command, access) => {
      escapes.push(attempt(real, access));
      return ['/bin/false'];
    };
    await start({ ...real, confine }).catch(() => undefined);
    return escapes;
  }

  it('blocks all files, sockets and processes that a hostile program reaches if the sandbox is off', async () => {
    const reached = [
      ...['environment of the parent', 'document of another', 'port on this machine', 'local socket'],
      'datagram to a local socket',
      ...['priority of the parent', 'limits of the parent'],
      ...['session of its own', 'process group of its own', 'child process'],
    ];
    expect(attempt(createParserSandbox('off'), { read: [] }, reached)).deep.equal(reached);
    // Some attempts need a separate program.
    expect(attempt(real, { read: [], childProcesses: true })).deep.equal([...canSignal, 'child process']);
    expect(attempt(real, { read: [] })).deep.equal([]);
  });

  const run = (command: string[], childProcesses = false) => {
    const [program, ...args] = real.confine(command as [string, ...string[]], { read: [], childProcesses });
    return spawnSync(program, args, { env: {}, encoding: 'utf8' });
  };
  /** Makes system calls, and prints the name of each with `works` or its error number. */
  const outcomesOf = (calls: string, childProcesses = false) => {
    // A child process that was created nevertheless exits silently.
    const script = `my ($own, $other) = ($$, getppid);
      for my $call (${calls}) {
        my ($name, @arguments) = @$call;
        my $id = syscall(shift @arguments, @arguments);
        exit if $name =~ /clone|fork/ && $id == 0;
        print "$name ", ($id >= 0 ? 'works' : $! + 0), "\n";
      }`;
    return run(['perl', '-e', script], childProcesses).stdout.trim().split('\n');
  };
  const isArm = process.arch === 'arm64';
  const [EPERM, EACCES, ENOSYS] = [1, 13, 38];

  it('blocks every system call that creates a process, and allows threads', () => {
    const clone = `[clone => ${isArm ? 220 : 56}, 17, 0, 0, 0, 0]`;
    const clone3 = `[clone3 => 435, pack('Q4 Q Q6', (0) x 4, 17, (0) x 6), 88]`;
    const forks = isArm ? '' : ', [fork => 57], [vfork => 58]';
    const refused = [`clone ${EPERM}`, `clone3 ${ENOSYS}`, ...(isArm ? [] : [`fork ${EPERM}`, `vfork ${EPERM}`])];
    expect(outcomesOf(`${clone}, ${clone3}${forks}`)).deep.equal(refused);
    const thread = `new (require('node:worker_threads').Worker)('console.log("a thread")', { eval: true })`;
    expect(run([process.execPath, '-e', thread]).stdout).equal('a thread\n');
  });

  it('blocks ptrace and inotify', () => {
    const [ptrace, inotifyInit, inotifyAddWatch] = isArm ? [117, 26, 27] : [101, 294, 254];
    const watch = `[inotify_add_watch => ${inotifyAddWatch}, syscall(${inotifyInit}, 0), '/tmp', 0xfff]`;
    for (const childProcesses of [false, true]) {
      const outcomes = outcomesOf(`[ptrace => ${ptrace}, 0, 0, 0, 0], ${watch}`, childProcesses);
      expect(outcomes).deep.equal([`ptrace ${EACCES}`, `inotify_add_watch ${EACCES}`]);
    }
  });

  it('blocks signals to other processes on every kernel, also by fcntl, and allows signals to itself', () => {
    const [kill, tgkill, queue, queueToThread, tkill] = isArm ? [129, 131, 138, 240, 130] : [62, 234, 129, 297, 200];
    const outcomes = outcomesOf(`[kill => ${kill}, $other, 0], [tgkill => ${tgkill}, $other, $other, 0],
      [all => ${kill}, -1, 0], [queue => ${queue}, $other, 0, 0],
      [queueToThread => ${queueToThread}, $other, $other, 0, 0], [tkill => ${tkill}, $other, 0],
      [pidfd => 424, 0, 0, 0, 0], [own => ${kill}, $own, 0]`);
    const refused = ['kill', 'tgkill', 'all', 'queue', 'queueToThread', 'tkill', 'pidfd'];
    expect(outcomes).deep.equal([...refused.map((name) => `${name} ${EACCES}`), 'own works']);
    const commands = `use Fcntl; pipe(my $reader, my $writer);
      for my $command (8, 10, 15, F_GETFD, F_GETFL) {
        my $argument = $command == 15 ? pack('l l', 1, getppid) : 9;
        print "$command ", (fcntl($reader, $command, $argument) ? 'works' : $! + 0), "\n";
      }`;
    const byCommand = [8, 10, 15].map((command) => `${command} ${EACCES}`);
    expect(run(['perl', '-e', commands]).stdout.trim().split('\n')).deep.equal([...byCommand, '1 works', '3 works']);
  });

  const kinds: Record<string, (sandbox: ParserSandbox) => Promise<unknown>> = {
    'reads a PDF': (sandbox) => convert(sandbox, 'pdf'),
    'draws the pages of a PDF': (sandbox) => {
      const folders = { toolsDir: join(root, 'tools'), workingDirectory: root };
      const limits = defaultConversionProcessLimits;
      const source = { sandbox, path: own, signal, python: 'python3', ...folders, limits };
      return renderPdfPageImages(source, [0], new PassThrough());
    },
    'reads an office file': (sandbox) => convert(sandbox, 'docx'),
    'recognizes the text in a picture': (sandbox) => convert(sandbox, 'image'),
    'makes an avatar': (sandbox) => createAvatarImageMaker({ sandbox, tempDir: root })(Buffer.from('image'), signal),
    'calculates an expression': (sandbox) => createMathTool({ sandbox })({ expression: '1' }, toolContext),
    'prints an office file': async (sandbox) => {
      const program = join(root, 'office', 'program');
      await mkdir(program, { recursive: true });
      await writeFile(join(program, 'soffice.bin'), '#!/bin/sh\n', { mode: 0o755 });
      const office = createLibreOfficeRenderer({ path: join(program, 'soffice'), sandbox, tempDir: places.folder });
      await office.render({ path: own, format: 'odt', pdfPath: join(root, 'printed.pdf'), signal });
    },
  };

  async function convert(sandbox: ParserSandbox, format: 'pdf' | 'docx' | 'image'): Promise<unknown> {
    const converter = createConverter({ sandbox, toolsDir: join(root, 'tools'), tempDir: root });
    const recognition = { known: [], sliceMs: 1_000, keep: async () => undefined };
    return converter.convert({ orgId: 'any', path: own, fileName: 'own', format, signal, recognition });
  }

  for (const [kind, start] of Object.entries(kinds)) {
    it(`keeps secrets, other files, network and needless child processes from a program that ${kind}`, async () => {
      const allowed = kind === 'prints an office file' ? [...canSignal, 'child process'] : [];
      expect(await escapesOf(start)).deep.equal([allowed]);
      expect(await readFile(places.other, 'utf8')).equal('the other one');
      expect((await stat(places.other)).mode & 0o777).not.equal(0o777);
    });
  }

  it('drops the capabilities of root, and passes on exit codes and signals of the program', () => {
    expect(run(['cat', '/proc/self/status']).stdout)
      .match(/^CapEff:\s+0{16}$/m)
      .and.match(/^NoNewPrivs:\s+1$/m)
      .and.match(/^Seccomp:\s+2$/m);
    expect(run(['/bin/sh', '-c', 'exit 7']).status).equal(7);
    expect(run(['/bin/sh', '-c', 'kill -ABRT $$']).signal).equal('SIGABRT');
  });
});
