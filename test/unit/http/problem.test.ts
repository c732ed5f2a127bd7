import { expect } from 'chai';
import { appError, fieldError, listErrorCatalogue } from '#src/errors.ts';
import { problemHeaders, problemSchema, toAppError, toProblem } from '#src/http/response/problem.ts';

describe('problem responses', () => {
  const request = { path: '/documents/1', requestId: 'r-1' };
  const never = () => false;

  it('match their schema for every error code', () => {
    for (const { code, status } of listErrorCatalogue()) {
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

  it('list the invalid fields', () => {
    expect(toProblem(fieldError('name', 'Too long', 'too_big'), request).errors).to.deep.equal([
      { path: 'name', message: 'Too long', code: 'too_big' },
    ]);
  });

  it('reveal nothing about an unexpected error', () => {
    const error = toAppError(new Error('select secret from users'), never);
    expect(JSON.stringify(toProblem(error, request))).not.to.contain('secret');
    expect(error.status).to.equal(500);
  });

  it('have Retry-After when the database is unreachable', () => {
    const error = toAppError(new Error('connect ECONNREFUSED'), () => true);
    expect(error.code).to.equal('service_unavailable');
    expect(problemHeaders(error, false)).to.have.property('Retry-After');
  });

  it('distinguish a rejected token from a missing one', () => {
    expect(problemHeaders(appError('invalid_token'), false)['WWW-Authenticate']).to.equal('Bearer');
    expect(problemHeaders(appError('invalid_token'), true)['WWW-Authenticate']).to.contain('invalid_token');
  });
});
