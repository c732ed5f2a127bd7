/** Turns that say nothing of the topic: greetings, thanks, yes and no. */
const neutralWords: ReadonlySet<string> = new Set(
  `hi hello hey hiya yo greetings good morning afternoon evening night day bye goodbye cheers welcome
  thanks thank thx ty you very much so a lot many appreciate it that's that is
  yes yeah yep yup no nope nah ok okay k sure fine alright all right great perfect cool nice awesome excellent wonderful
  please sorry got i see understood makes sense of course exactly correct indeed absolutely definitely maybe hmm
  oh ah wow haha lol how are what's up well go on continue more`.split(/\s+/),
);

const words = /[\p{L}\p{M}\p{N}]+(?:['’][\p{L}]+)*/gu;

/** Whether every word of a turn is one of courtesy or assent. */
export function isCourtesy(text: string): boolean {
  return Array.from(text.toLowerCase().replaceAll('’', "'").matchAll(words)).every(([word]) => neutralWords.has(word));
}

/** Some 1,500 tokens, and never more than four times that, whatever signs a text is made of. */
const telling = 6_000;

/** What of a text is embedded: of a long one its beginning, middle and end, which say what it is about. */
export function tellingPart(text: string): string {
  if (text.length <= telling) return text;
  const third = telling / 3;
  const middle = (text.length - third) / 2;
  const parts = [text.slice(0, third), text.slice(middle, middle + third), text.slice(-third)];
  return parts.join('\n').toWellFormed();
}

// What may repeat, spaces too, is bounded where something may follow it: a message of 30,000 times "please", or of as
// many spaces, must not cost the square of its length.
const dismissal = String.raw`(?:^|[.!?;,:\n—–-][^\S\n]{0,9}|\b(?:ok|okay|well|so|please|alright|actually|now|just)\s+)(?:(?:please|let['’]s|just)\s+){0,3}(?:forget|never\s?mind|enough|no more|stop talking|drop|leave|skip|put)\s{1,9}(?:(?:about|of|with)\s{1,9})?[^.!?,;:\n—–]{0,200}(?:[.!?,;:\n—–]{1,9}\s*(?:(?:and|but|so|now|then|instead,?)\s+){0,3}|\s{1,9}and\s{1,9}(?=let|can|could|tell|talk|i\b|what|how))`;
const turn = String.raw`\b(?:let['’]?s|let us|can we|could we|shall we|we should|i(?:['’]d| would) (?:like|rather|prefer)(?: to)?|i want to)\s+(?:(?:now|instead|please|just|rather)\s+){0,3}(?:talk|speak|chat|discuss|switch|move on|change|turn|go)\b(?:\s+(?:back|instead|now|the|topics?|subjects?)){0,4}\s*(?:about|over to|to|onto|on)?\s+`;
const announcement = String.raw`\b(?:changing|to change|switching|on) (?:the |another |a different |an unrelated |a totally different )?(?:subjects?|topics?|note)\b[\s,:.—–-]{0,9}(?:to\s+)?`;
const switchCues = new RegExp(`${dismissal}|${turn}|${announcement}`, 'giu');

/**
 * What a turn asks for after an explicit change of topic ("Forget the loan, let's talk about football" → "football"),
 * or null when it announces none. Only this part says where the user is going; the rest names what is left behind.
 */
export function clauseAfterSwitch(text: string): string | null {
  const cue = [...text.matchAll(switchCues)].at(-1);
  if (!cue) return null;
  const clause = text.slice(cue.index + cue[0].length).trim();
  return /[\p{L}\p{N}]/u.test(clause) ? clause : null;
}
