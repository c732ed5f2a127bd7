import { expect } from 'chai';
import { containsAddress } from '#src/domain/chat/urls.ts';

describe('URLs that users wrote', () => {
  const texts = [
    'You help with https://bank.example/rates?year=2026.',
    'See (example.com/pricing), [the page](https://wiki.example/Loan_(finance)) and "www.bank.example".',
  ];

  for (const address of [
    'https://bank.example/rates?year=2026',
    'http://bank.example/rates?year=2026',
    'https://example.com/pricing',
    'https://example.com/pricing/',
    'https://wiki.example/Loan_(finance)',
    'https://www.bank.example/',
  ]) {
    it(`may be fetched: ${address}`, () => expect(containsAddress(address, texts)).equal(true));
  }

  for (const address of [
    'https://bank.example/rates?year=2026&d=secret',
    'https://bank.example/rates',
    'https://bank.example',
    'https://example.com/pricing/secret',
    'https://evil.example/',
    'https://bank.example@evil.example/rates?year=2026',
    '',
    'https://',
  ]) {
    it(`may not be fetched: ${address}`, () => expect(containsAddress(address, texts)).equal(false));
  }
});
