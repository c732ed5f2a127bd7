import { appError } from '#src/errors.ts';

/** Deeper pages are no pages; the parsers would take hours to find that out. */
const deepestNesting = 2_000;
/** Elements that a following one closes without being asked, or that hold nothing. */
const selfClosing =
  /^(?:area|base|br|col|embed|hr|img|input|link|meta|param|source|track|wbr|p|li|d[td]|t[dhr]|tbody|thead|tfoot|option|optgroup)$/;

/** To be asked before HTML of strangers is parsed. Throws `corrupt_document` for an endless nesting. */
export function checkNesting(html: string): void {
  let depth = 0;
  for (const [, slash, name = ''] of html.matchAll(/<(\/?)([a-z][a-z0-9]*)/gi)) {
    if (!selfClosing.test(name.toLowerCase())) depth = slash ? Math.max(0, depth - 1) : depth + 1;
    if (depth > deepestNesting) {
      throw appError('corrupt_document', { detail: `The page nests more than ${deepestNesting} elements.` });
    }
  }
}
