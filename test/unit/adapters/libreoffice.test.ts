import { spawn } from 'node:child_process';
import { chmod, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { mock } from 'node:test';
import { expect } from 'chai';
import { createParserSandbox } from '#src/adapters/parser-sandbox.ts';
import { createLibreOfficeRenderer } from '#src/adapters/pdf-renderer/libreoffice.ts';
import { appErrorCode } from '#test/support/app-error-code.ts';
import { until } from '#test/support/until.ts';

/** Tests the process with scripts in place of LibreOffice; test/activities/previews renders real files. */
describe('the process of LibreOffice', () => {
  let folder: string;
  beforeEach(async () => {
    folder = await mkdtemp(join(tmpdir(), 'office-'));
    await writeFile(join(folder, 'original'), 'the file');
  });
  afterEach(async () => {
    mock.timers.reset();
    await rm(folder, { recursive: true });
  });

  const read = (name: string) => readFile(join(folder, name), 'utf8');

  /** `$PDF` is the path of the PDF. */
  async function render(script: string, { limits = {}, signal = new AbortController().signal } = {}): Promise<void> {
    const path = join(folder, 'soffice');
    await writeFile(path, `#!/bin/sh\nwhile [ $# -gt 1 ]; do shift; done\nPDF=\${1%/*}/document.pdf\n${script}\n`);
    await chmod(path, 0o755);
    // Without a sandbox, so that the scripts can write outside of the job's folder.
    const sandbox = createParserSandbox('off');
    const program = createLibreOfficeRenderer({ path, sandbox, tempDir: folder, limits });
    const pdfPath = join(folder, 'printed.pdf');
    await program.render({ path: join(folder, 'original'), format: 'odt', pdfPath, signal });
  }

  it('has a restricted profile, gets no environment of the service, and leaves no temporary folder', async () => {
    process.env.OFFICE_TEST_SECRET = 'secret';
    const profile = '"$HOME/profile/user/registrymodifications.xcu"';
    await render(`cp ${profile} ${folder}/profile; env > ${folder}/env; cat "$1" > "$PDF"; echo ok >> "$PDF"`);
    delete process.env.OFFICE_TEST_SECRET;
    expect(await read('printed.pdf')).equal('the fileok\n');
    expect(await read('profile')).match(
      /DisableMacrosExecution.*<value>true.*BlockUntrustedRefererLinks.*<value>true/s,
    );
    expect(await read('env')).not.contain('secret');
    expect((await readdir(folder)).filter((name) => name.startsWith('acs-print-'))).deep.equal([]);
  });

  it('fails with a code that says whether the file or a limit is to blame', async () => {
    const died = 'echo "Unspecified Application Error" >&2; echo "Fatal exception: Signal 6" >&2';
    const hungry = "sh -c 'sleep 30; :' & sleep 30";
    for (const [script, limits, code] of [
      ['echo "Error: source file could not be loaded" >&2', {}, 'corrupt_document'],
      [`${died}; exit 1`, {}, 'corrupt_document'],
      ['exit 134', {}, 'corrupt_document'],
      ['kill -SEGV $$', {}, 'corrupt_document'],
      [hungry, { memoryBytes: 1_000 }, 'too_large'],
      ['cat "$1" > "$PDF"', { pdfBytes: 4 }, 'too_large'],
    ] as const) {
      expect(await appErrorCode(render(script, { limits })), script).equal(code);
    }
    const failure = await render('echo "error while loading shared libraries" >&2; exit 127').catch((error) => error);
    expect(failure, 'it fails before it reads the file').property('name', 'Error');
    expect(failure.message).contain('shared libraries');
  });

  it('is killed with its whole process group after the time limit', async () => {
    mock.timers.enable({ apis: ['setTimeout'] });
    const wallMs = 60_000;
    const code = appErrorCode(render(`sleep 600 & echo $! > ${folder}/pid; wait`, { limits: { wallMs } }));
    const pid = await until(
      'the program has started its child',
      async () => Number(await read('pid').catch(() => '')) || null,
    );
    mock.timers.tick(wallMs);
    expect(await code).equal('conversion_timeout');
    await until('its child is gone', async () => !isAlive(pid));
  });

  it('ends when the process that started it ends', async () => {
    const path = join(folder, 'soffice');
    await writeFile(path, `#!/bin/sh\necho $$ > ${folder}/pid\nexec sleep 60\n`);
    await chmod(path, 0o755);
    const run = { command: [path], environment: { PATH: '/usr/bin:/bin' }, workingDirectory: folder };
    const limits = { wallMs: 60_000, memoryBytes: 1e9 };
    const worker = spawn(process.execPath, [
      ...['--input-type=module', '-e'],
      `import { runProcessGroup } from ${JSON.stringify(import.meta.resolve('#src/adapters/pdf-renderer/libreoffice.ts'))};
      await runProcessGroup({ ...${JSON.stringify({ ...run, limits })}, signal: new AbortController().signal });`,
    ]);
    const pid = Number(
      await until('it is started', async () => (await read('pid').catch(() => '')).trim() || undefined),
    );
    worker.kill('SIGKILL');
    await until('it is gone', async () => !isAlive(pid));
  });

  it('stops when the signal aborts', async () => {
    const stop = new AbortController();
    const rendering = render('sleep 60', { signal: stop.signal }).catch((error: unknown) => error);
    stop.abort(new Error('stopped'));
    expect(await rendering).property('message', 'stopped');
  });
});

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
}
