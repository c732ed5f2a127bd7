import { expect } from 'chai';
import { appError, fieldError, listErrors } from '#src/errors.ts';
import { problemHeaders, problemSchema, toAppError, toProblem } from '#src/http/response/problem.ts';

describe('problem answers', () => {
  const request = { path: '/documents/1', requestId: 'r-1' };
  const never = () => false;

  it('have the shape of their schema for every code of the catalogue', () => {
    for (const { code, status } of listErrors()) {
      const problem = problemSchema.parse(toProblem(appError(code), request));
      expect(problem).to.include({
        type: `/errors/${code}`,
        code,
        status,
        instance: '/documents/1',
        request_id: 'r-1',
      });
    }
  });

  it('list the wrong fields', () => {
    expect(toProblem(fieldError('name', 'Too long', 'too_big'), request).errors).to.deep.equal([
      { path: 'name', message: 'Too long', code: 'too_big' },
    ]);
  });

  it('tell nothing of an error that nobody expected', () => {
    const error = toAppError(new Error('select secret from users'), never);
    expect(JSON.stringify(toProblem(error, request))).not.to.contain('secret');
    expect(error.status).to.equal(500);
  });

  it('ask to come back later when the database is out', () => {
    const error = toAppError(new Error('connect ECONNREFUSED'), () => true);
    expect(error.code).to.equal('service_unavailable');
    expect(problemHeaders(error, false)).to.have.property('Retry-After');
  });

  it('tell a refused token from a missing one', () => {
    expect(problemHeaders(appError('invalid_token'), false)['WWW-Authenticate']).to.equal('Bearer');
    expect(problemHeaders(appError('invalid_token'), true)['WWW-Authenticate']).to.contain('invalid_token');
  });
});
