// `npm run demo:connectors`: connects a Google Drive, imports and syncs its files through the public API, then keeps
// serving.
import path from 'node:path';
import { startFakeDrive } from '#test/support/fake-drive.ts';
import { createApiClient } from './demo/api-client.ts';
import { runConnectorDemo } from './demo/connector-story.ts';
import { signIn } from './demo/demo-account.ts';
import { createNarrator } from './demo/narrator.ts';
import { makeSampleDocuments } from './demo/sample-documents.ts';
import { readyText, startEmbedded } from './embedded-mode.ts';
import { readStartSettings } from './settings.ts';
import { exitAfter, runUntilStopped } from './supervisor/run-until-stopped.ts';

await exitAfter(async () => {
  const narrator = createNarrator(process.stdout);
  const drive = await startFakeDrive();
  Object.assign(process.env, {
    ACME_DRIVE_BASE_URL: drive.baseUrl,
    ACME_DRIVE_CLIENT_ID: drive.client.id,
    ACME_DRIVE_CLIENT_SECRET: drive.client.secret,
    // The demo has its own data folder: its sync schedules would fail later, because the fake drive ends with this
    // process.
    DATA_DIR: process.env.DATA_DIR ?? '.data/demo-connectors',
    EGRESS_ALLOW: [process.env.EGRESS_ALLOW, drive.place].filter(Boolean).join(','),
  });
  const settings = readStartSettings(process.env);
  return runUntilStopped({
    dataDir: settings.dataDir,
    log: (line) => console.error(line),
    work: async (supervisor, _ending, serves) => {
      const addresses = await startEmbedded(settings, supervisor, narrator.line);
      const accountFile = path.join(settings.dataDir, 'demo-account.json');
      const { api, email } = await signIn(createApiClient(addresses.apiUrl), accountFile);
      const files = await makeSampleDocuments(path.join(settings.dataDir, 'demo'));
      await runConnectorDemo({ api, drive, narrator, files });
      narrator.heading('Sign in');
      narrator.line(
        `  POST /auth/login with the username ${email}; the password is in ${path.relative('.', accountFile)}`,
      );
      serves();
      narrator.line(readyText('keeps running', settings, addresses));
      return supervisor.failed;
    },
  });
});
