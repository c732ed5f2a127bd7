import { randomBytes } from 'node:crypto';
import { expect } from 'chai';
import { createSecretBox } from '#src/adapters/secrets/secret-box.ts';
import { AppError } from '#src/errors.ts';

const key = (id: string) => ({ id, key: randomBytes(32) });

function refusalOf(open: () => unknown): AppError {
  try {
    open();
  } catch (error) {
    if (error instanceof AppError) return error;
    throw error;
  }
  throw new Error('it was opened');
}

describe('the secret box', () => {
  const [first, second] = [key('2026-01'), key('2026-02')];
  const box = createSecretBox([first]);

  it('opens what it has sealed, in its place', () => {
    const sealed = box.seal('s3cret ключ', 'connections/1');
    expect(sealed)
      .match(/^2026-01:/)
      .and.not.contain('s3cret');
    expect(box.open(sealed, 'connections/1')).deep.equal({ secret: 's3cret ключ', isStale: false });
  });

  it('seals the same secret differently each time', () => {
    expect(box.seal('s3cret', 'a')).not.equal(box.seal('s3cret', 'a'));
  });

  it('opens nothing in the place of another row', () => {
    const sealed = box.seal('s3cret', 'connections/1');
    expect(refusalOf(() => box.open(sealed, 'connections/2')).code).equal('credentials_unreadable');
  });

  it('opens nothing of which one bit is another, nor a part of it', () => {
    const sealed = box.seal('s3cret', 'a');
    const body = Buffer.from(sealed.split(':')[1] ?? '', 'base64');
    for (let at = 0; at < body.length; at += 1) {
      const changed = Buffer.from(body);
      changed.writeUInt8(changed.readUInt8(at) ^ 1, at);
      const error = refusalOf(() => box.open(`2026-01:${changed.toString('base64')}`, 'a'));
      expect(error.code).equal('credentials_unreadable');
    }
    for (const part of ['', ':', '2026-01:', sealed.slice(0, 20), 'no key at all', `2026-01:${'A'.repeat(37)}`]) {
      expect(refusalOf(() => box.open(part, 'a')).code, part).equal('credentials_unreadable');
    }
  });

  it('seals by the first key and opens by all, and tells what an older one has sealed', () => {
    const old = box.seal('s3cret', 'a');
    const rotated = createSecretBox([second, first]);
    expect(rotated.sealingKeyId).equal('2026-02');
    expect(rotated.open(old, 'a')).deep.equal({ secret: 's3cret', isStale: true });
    expect(rotated.open(rotated.seal('s3cret', 'a'), 'a')).deep.equal({ secret: 's3cret', isStale: false });
  });

  it('names the key that is missing, and neither key nor secret', () => {
    const sealed = createSecretBox([second]).seal('s3cret', 'a');
    const error = refusalOf(() => box.open(sealed, 'a'));
    expect(error.message).contain('2026-02').and.not.contain('s3cret');
    expect(error.cause).equal(undefined);
  });

  it('refuses what another key of the same name has sealed', () => {
    const sealed = createSecretBox([key('2026-01')]).seal('s3cret', 'a');
    expect(refusalOf(() => box.open(sealed, 'a')).code).equal('credentials_unreadable');
  });
});
