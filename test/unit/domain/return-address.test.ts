import { expect } from 'chai';
import { validateReturnUrl } from '#src/domain/access/return-address.ts';

describe('validateReturnUrl', () => {
  const known = { home: 'https://app.example.com/console', origins: ['https://other.example.com:8443'] };

  for (const [text, address] of Object.entries({
    '/settings/tools?tab=1#list': 'https://app.example.com/console/settings/tools?tab=1#list',
    '/': 'https://app.example.com/console/',
    'https://app.example.com/elsewhere': 'https://app.example.com/elsewhere',
    'https://OTHER.example.com:8443/x': 'https://other.example.com:8443/x',
    '/@evil.example': 'https://app.example.com/console/@evil.example',
    '/../..//evil.example': 'https://app.example.com//evil.example',
  })) {
    it(`accepts ${text}`, () => expect(validateReturnUrl(text, known)).equal(address));
  }

  for (const text of [
    '',
    'settings',
    '//evil.example',
    '/\\evil.example',
    '\\\\evil.example',
    '/\t/evil.example',
    '/\n/evil.example',
    'https://evil.example',
    'https://app.example.com.evil.example',
    'https://app.example.com@evil.example',
    'https://user:word@app.example.com/',
    'http://app.example.com/',
    'https://other.example.com/',
    'javascript:alert(1)',
    'data:text/html,x',
    'https://',
    '/a\u202eb',
  ]) {
    it(`rejects ${JSON.stringify(text)}`, () => expect(validateReturnUrl(text, known)).equal(null));
  }

  describe('without a base URL', () => {
    const unknown = { home: null, origins: ['https://other.example.com'] };
    for (const [text, address] of Object.entries({
      '/files?tab=1#list': '/files?tab=1#list',
      '/@evil.example': '/@evil.example',
      'https://other.example.com/x': 'https://other.example.com/x',
      '/..//evil.example': null,
      '/.//evil.example': null,
      '//evil.example': null,
      'https://evil.example/': null,
      'http://path/': null,
    })) {
      it(`returns ${address} for ${text}`, () => expect(validateReturnUrl(text, unknown)).equal(address));
    }
  });
});
