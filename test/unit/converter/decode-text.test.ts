import { expect } from 'chai';
import iconv from 'iconv-lite';
import { decodeText, findDeclaredEncoding } from '#src/adapters/converter/decode-text.ts';
import { cleanMarkdown, cleanText } from '#src/adapters/converter/parsed-document.ts';

describe('decodeText', () => {
  const words = 'Grüße aus Köln, naïve Café-Gäste über allen Gipfeln';

  it('reads every Unicode encoding with and without a byte order mark', () => {
    for (const encoding of ['utf8', 'utf-16le', 'utf-16be', 'utf-32le']) {
      expect(decodeText(iconv.encode(words, encoding, { addBOM: true })), encoding).to.equal(words);
    }
    expect(decodeText(Buffer.from(words))).to.equal(words);
    expect(decodeText(iconv.encode('plain words', 'utf-16le'))).to.equal('plain words');
  });

  const guessed: [string, string][] = [
    [
      'windows-1252',
      'Jeder Mitarbeiter hat Anspruch auf dreißig Tage Urlaub. Über Ausnahmen entscheidet die Geschäftsführung.',
    ],
    ['iso-8859-1', 'Chaque salarié a droit à trente jours de congé par année, sur demande adressée à son employeur.'],
    [
      'macroman',
      'Jeder Mitarbeiter hat Anspruch auf dreißig Tage Urlaub. Über Ausnahmen entscheidet die Geschäftsführung.',
    ],
    [
      'cp437',
      'Jeder Mitarbeiter hat Anspruch auf dreißig Tage Urlaub. Über Ausnahmen entscheidet die Geschäftsführung.',
    ],
    [
      'windows-1250',
      'Každý zaměstnanec má nárok na třicet dnů dovolené ročně. Žádost se podává dva týdny před začátkem.',
    ],
    [
      'iso-8859-2',
      'Każdy pracownik ma prawo do trzydziestu dni urlopu rocznie. Wniosek należy złożyć przełożonemu wcześniej.',
    ],
    ['windows-1251', 'Каждый сотрудник имеет право на тридцать дней отпуска в год по заявлению.'],
    ['koi8-r', 'Каждый сотрудник имеет право на тридцать дней отпуска в год по заявлению.'],
    ['iso-8859-5', 'Каждый сотрудник имеет право на тридцать дней отпуска в год по заявлению.'],
    ['ibm866', 'Каждый сотрудник имеет право на тридцать дней отпуска в год по заявлению.'],
    ['maccyrillic', 'Каждый сотрудник имеет право на тридцать дней отпуска в год по заявлению.'],
    ['windows-1253', 'Κάθε εργαζόμενος δικαιούται τριάντα ημέρες άδειας τον χρόνο με αίτηση.'],
    [
      'windows-1254',
      'Her çalışan yılda otuz gün izin hakkına sahiptir. Başvuru iki hafta önce yöneticiye yapılır; şimdi değişmez.',
    ],
    ['windows-1255', 'כל עובד זכאי לשלושים ימי חופשה בשנה. הבקשה מוגשת למנהל שבועיים לפני תחילת החופשה.'],
    ['windows-1256', 'يحق لكل موظف ثلاثون يوما من الإجازة في السنة. يقدم الطلب إلى المدير قبل أسبوعين من البداية.'],
    ['shift_jis', '吾輩は猫である。名前はまだ無い。どこで生れたかとんと見当がつかぬ。'],
    ['euc-jp', '吾輩は猫である。名前はまだ無い。どこで生れたかとんと見当がつかぬ。'],
    ['gb18030', '每位员工每年有三十天的假期。申请应在开始前两周提交给主管。请提前安排好工作。'],
    ['big5', '每位員工每年有三十天的假期。申請應在開始前兩週提交給主管。請提前安排好工作。'],
    ['euc-kr', '모든 직원은 일 년에 삼십 일의 휴가를 받을 수 있습니다. 신청은 관리자에게 제출해야 합니다.'],
    ['tis-620', 'พนักงานทุกคนมีสิทธิ์ลาพักร้อนสามสิบวันต่อปี โปรดยื่นคำขอต่อหัวหน้างานล่วงหน้าสองสัปดาห์'],
  ];
  for (const [encoding, text] of guessed) {
    it(`guesses ${encoding}`, () => {
      expect(decodeText(iconv.encode(text, encoding))).to.equal(text);
    });
  }

  const western = [
    'Le café déjà fermé à Orléans; élève naïf, forêt, garçon.',
    'Große Straße, Prüfung',
    'Große Straße, naïve café, die Prüfung',
    'È così perché città più',
    'Blåbærsyltetøy på brød, ærlig',
    'Hyvää päivää, äiti',
    '“Quoted” – it’s 50 € off',
    '¡Hola! ¿Cómo estás?',
  ];
  for (const text of western) {
    it(`reads a few words as windows-1252 when the detector is unsure: ${text}`, () => {
      expect(decodeText(iconv.encode(text, 'windows-1252'))).to.equal(text);
    });
  }

  const fewOthers: [string, string][] = [
    ['iso-8859-2', 'Dziękuję, łódź'],
    ['windows-1251', 'Привет, мир'],
    ['windows-1253', 'Καλημέρα κόσμε'],
    ['windows-1254', 'Günaydın, teşekkürler'],
    ['windows-1256', 'مرحبا بالعالم'],
  ];
  for (const [encoding, text] of fewOthers) {
    it(`guesses ${encoding} from a few words`, () => {
      expect(decodeText(iconv.encode(text, encoding))).to.equal(text);
    });
  }

  it('reads ISO-2022-JP although it is valid UTF-8', () => {
    expect(decodeText(Buffer.from('Re: \x1b$B5Y2K\x1b(B', 'latin1'))).to.equal('Re: 休暇');
  });

  it('prefers the declared encoding to a guess', () => {
    expect(decodeText(iconv.encode('Škoda žluťoučký', 'windows-1250'), 'windows-1250')).to.equal('Škoda žluťoučký');
    // Pages that declare Latin-1 use the quotes of windows-1252.
    expect(decodeText(iconv.encode('“Grüße”', 'windows-1252'), 'ISO-8859-1')).to.equal('“Grüße”');
  });
});

describe('findDeclaredEncoding', () => {
  const cases: [string, string | undefined][] = [
    ['<html><head><meta charset="windows-1251">', 'windows-1251'],
    ['<meta http-equiv="Content-Type" content="text/html; charset=EUC-JP">', 'EUC-JP'],
    ['<?xml version="1.0" encoding="iso-8859-2"?><html>', 'iso-8859-2'],
    ['<html><p>charset=utf-7</p>', undefined],
  ];
  for (const [page, encoding] of cases) {
    it(`returns ${encoding ?? 'none'} for ${page}`, () => {
      expect(findDeclaredEncoding(Buffer.from(page))).to.equal(encoding);
    });
  }
});

describe('cleanText and cleanMarkdown', () => {
  it('removes invisible characters', () => {
    expect(cleanText('a\u0000b\u200bc\u202ed\u{e0041}e\ufeff')).to.equal('abcde');
  });

  it('keeps the joiners of scripts and emoji', () => {
    expect(cleanText('👩\u200d💻 نمی\u200cخواهم')).to.equal('👩\u200d💻 نمی\u200cخواهم');
  });

  it('replaces lone surrogates, normalizes newlines and composes letters', () => {
    expect(cleanText('a\ud800b\r\nc\rd\fe\u0301')).to.equal('a\ufffdb\nc\nd\né');
  });

  it('keeps at most one empty line in a row', () => {
    expect(cleanMarkdown('\n\n  a  \n\n\n\nb\t\n\n')).to.equal('  a\n\nb');
  });
});
