import { spawn } from 'node:child_process';
import { chmod, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { mock } from 'node:test';
import { expect } from 'chai';
import { createParserSandbox } from '#src/adapters/parser-sandbox.ts';
import { createLibreOfficeRenderer, type PdfRenderLimits } from '#src/adapters/pdf-renderer/libreoffice.ts';
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
    const program = createLibreOfficeRenderer({
      path,
      sandbox,
      tempDir: folder,
      limits: limits as Partial<PdfRenderLimits>,
    });
    await program.render({
      path: join(folder, 'original'),
      format: 'odt',
      pdfPath: join(folder, 'printed.pdf'),
      signal,
    });
  }

  it('runs with a restricted profile and without our environment, and leaves no folder', async () => {
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

  it('corrupt_document: if it exits with 0 without a PDF', async () => {
    expect(await appErrorCode(render('echo "Error: source file could not be loaded" >&2'))).equal('corrupt_document');
  });

  it('corrupt_document: if it crashes on the file', async () => {
    const died = 'echo "Unspecified Application Error" >&2; echo "Fatal exception: Signal 6" >&2';
    expect(await appErrorCode(render(`${died}; exit 1`))).equal('corrupt_document');
    expect(await appErrorCode(render('exit 134'))).equal('corrupt_document');
    expect(await appErrorCode(render('kill -SEGV $$'))).equal('corrupt_document');
  });

  it('does not blame the file if it fails before it reads the file', async () => {
    const failure = await render('echo "error while loading shared libraries" >&2; exit 127').catch((error) => error);
    expect(failure).property('name', 'Error');
    expect(failure.message).contain('shared libraries');
  });

  it('too_large: above the memory limit of all its processes, and for a large PDF', async () => {
    const hungry = "sh -c 'sleep 30; :' & sleep 30";
    expect(await appErrorCode(render(hungry, { limits: { memoryBytes: 1_000 } }))).equal('too_large');
    expect(await appErrorCode(render('cat "$1" > "$PDF"', { limits: { pdfBytes: 4 } }))).equal('too_large');
  });

  it('conversion_timeout: kills the whole process group', async () => {
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

  it('dies with the process that started it', async () => {
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
