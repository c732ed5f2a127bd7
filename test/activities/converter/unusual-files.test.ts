import { readsUnusualFiles } from '#test/support/unusual-files.ts';

describe('the converter, on unusual files,', () => {
  readsUnusualFiles(({ name }) => !name.startsWith('scan-'));
});
