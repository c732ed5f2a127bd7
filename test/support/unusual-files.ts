import { expect } from 'chai';
import { likenessOf } from '../../bench/reading/likeness.ts';
import { absentWordsIn, readUnusualFiles, type UnusualFile } from '../../bench/reading/unusual-files.ts';
import { needsPdfium, useConverter } from './converter-environment.ts';

/** A test for each file of bench/reading/set that is chosen: as much of its text is read as `least` says. */
export function readsUnusualFiles(isChosen: (file: UnusualFile) => boolean): void {
  const environment = useConverter();
  for (const file of readUnusualFiles().filter(isChosen)) {
    const { name, path, what, text, least, reason } = file;
    it(`reads ${name}: ${what}${reason === null ? '' : `, but ${reason}`}`, async function () {
      if (name.endsWith('.pdf')) needsPdfium(this);
      const { body } = await environment.convertPath(path);
      const { recall, order } = likenessOf(text, body);
      expect(recall, 'recall').least(least.recall);
      expect(order, 'order').least(least.order);
      expect(absentWordsIn(body, file)).deep.equal([]);
    });
  }
}
