import { expect } from 'chai';
import { maskSecret } from '#src/domain/access/credentials.ts';

describe('maskSecret', () => {
  it('shows the first two and the last four characters', () => {
    expect(maskSecret('AKIAIOSFODNN7EXAMPLE')).equal('AK****MPLE');
    expect(maskSecret('0123456789abcdef')).equal('01****cdef');
  });

  it('masks a short secret completely', () => {
    for (const secret of ['', 'test', '0123456789abcde']) expect(maskSecret(secret)).equal('****');
  });
});
