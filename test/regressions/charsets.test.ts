import { describe, expect, it } from 'vitest';
import { ATTACHMENT_LIMITS } from '../../src/mail/attachment-text.ts';
import { decodeText } from '../../src/mail/charsets.ts';
import { documentText } from '../../src/mail/document-text.ts';
import { attachmentForm, extractMessage } from '../../src/mail/extract-message.ts';
import { DEFAULT_LIMITS } from '../../src/mail/extraction.ts';
import { PLAIN_TEXT } from '../../src/mail/part-tree.ts';

/** A message whose header and body are given one char a byte. */
async function extract(header: readonly string[], body = 'x') {
  const source = Buffer.from([...header, '', body].join('\r\n'), 'latin1');
  return await extractMessage(source, false, DEFAULT_LIMITS);
}

/** The label, the bytes as hex digits, and what they say. */
const SAMPLES: readonly (readonly [string, string, string])[] = [
  ['iso-2022-kr', '1b2429430e3e4833670f200e3c3c30680f', '안녕 세계'],
  ['csISO2022KR', '1b2429430e3e4833670f', '안녕'],
  ['hz-gb-2312', '7e7b56504e447e7d207e7b32624a547e7d207e7e6f6b', '中文 测试 ~ok'],
  ['hz', '7e7b56504e447e7d', '中文'],
  ['csISO2022JP', '1b2442467c4b5c386c1b2842201b24422546253925481b2842', '日本語 テスト'],
  ['cp50220', '1b2442467c4b5c386c1b2842', '日本語'],
  ['iso-2022-jp-1', '1b2442467c4b5c386c1b2842201b24284430211b2842', '日本語 丂'],
  ['iso-2022-jp-2', '1b2442467c4b5c386c1b2842201b242843475131391b2842', '日本語 한국'],
  ['iso-2022-jp-3', '1b2442467c4b5c386c1b2842', '日本語'],
  ['iso-2022-jp-ext', '1b28493132331b2442467c4b5c1b2842', 'ｱｲｳ日本'],
  ['johab', 'b46591772099b1a4778862d06120f7d3f1ae', '안녕 똠방각하 漢字'],
  ['ms1361', 'b4659177', '안녕'],
  ['latin9', '35a420bd75767265', '5€ œuvre'],
  ['latin7', 'dee0736973', 'Žąsis'],
  ['latin0', 'bd75767265', 'œuvre'],
  ['x-mac-cyrillic', 'eff0e8e2e5f2', 'привет'],
  ['x-mac-ce', 'fd97b87479', 'żółty'],
  ['x-mac-roman', '6361668e20db', 'café €'],
  ['mac_arabic', 'e5d1cdc8c7', 'مرحبا'],
  ['kz1048', '8de0e7e09d', 'Қазақ'],
  ['ptcp154', '8de0e7e09d', 'Қазақ'],
  ['cp1125', '8aa8f9a2', 'Київ'],
  ['ruscii', '8aa8f9a2', 'Київ'],
  ['cp037', 'c8859393964083818651', 'Hello café'],
  ['csibm500', 'c8859393964083818651', 'Hello café'],
  ['cp875', '518a9e9a9fb2ae8a', 'Καλημέρα'],
  ['cp1140', 'f5409f', '5 €'],
  ['cp424', '69544655', 'שלום'],
  ['euc_jis_2004', 'c6fccbdcb8ec', '日本語'],
  ['shift_jis_2004', '93fa967b8cea', '日本語'],
  ['x-mac-japanese', '93fa967b8cea', '日本語'],
  ['eucgb2312_cn', 'b4f0b8b4', '答复'],
  ['ks_x_1001', 'c7d1b1db', '한글'],
  ['uhc', 'c7d1b1db', '한글'],
  ['tis-620', 'cac7d1cab4d5', 'สวัสดี'],
  ['koi8-t', 'f4cf8dc9cba5', 'Тоҷикӣ'],
  ['hp-roman8', '636166c5', 'café'],
  ['cp1006', 'a2a3', '۱۲'],
  ['dos-866', 'afe0a8a2a5e2', 'привет'],
  ['win-1251', 'eff0e8e2e5f2', 'привет'],
  ['windows1250', 'bff3b37479', 'żółty'],
  ['ms-ansi', '636166e9', 'café'],
];

describe('charsets and their names', () => {
  it.each(SAMPLES)('%s: body, encoded words and file name', async (label, hex, text) => {
    const bytes = Buffer.from(hex, 'hex');
    const quoted = [...bytes].map((byte) => byte.toString(16).toUpperCase().padStart(2, '0'));
    const { body, subject, from, attachments } = await extract(
      [
        `Subject: =?${label}?B?${bytes.toString('base64')}?=`,
        `From: =?${label}?q?=${quoted.join('=')}?= <a@example.org>`,
        'Content-Type: multipart/mixed; boundary=b',
      ],
      [
        '--b',
        `Content-Type: text/plain; charset="${label}"`,
        'Content-Transfer-Encoding: base64',
        '',
        bytes.toString('base64'),
        '--b',
        'Content-Type: application/octet-stream',
        `Content-Disposition: attachment; filename*=${label}''%${quoted.join('%')}`,
        '',
        '--b--',
      ].join('\r\n'),
    );
    expect([body.trim(), subject, from]).toEqual([text, text, `${text} <a@example.org>`]);
    expect(attachments.map(({ filename }) => filename)).toEqual([text]);
  });

  it.each([
    'koi8-r (Russian)',
    '(Russian) koi8-r',
    '"koi8-r"',
    "'koi8-r'",
    'KOI8_R',
    'x-koi8-r',
    'cskoi8r',
    'charset=koi8-r',
    'charset="koi8-r"',
    'charset=charset=koi8-r',
    ' koi8-r ',
    '"koi8-r',
    'koi8-r, utf-8',
    'cp20866',
    'koi8 r',
  ])('the label %s', async (label) => {
    const { body } = await extract([`Content-Type: text/plain; charset=${label}`], '\xcd\xc9\xd2');
    expect(body).toBe('мир');
  });

  it.each([
    'text/plain charset=koi8-r',
    'text/plain; charset:koi8-r',
    'text/plain; CHARSET = koi8-r',
    "text/plain; charset*=us-ascii'en'koi8-r",
  ])('the field %s', async (type) => {
    expect((await extract([`Content-Type: ${type}`], '\xcd\xc9\xd2')).body).toBe('мир');
  });

  it.each(['constructor', '__proto__', 'toString', 'base64', 'hex', '', '\u00e9', '*', '()', '"'])(
    'the label %j tells nothing',
    (label) => {
      expect(decodeText(Buffer.from('caf\xe9', 'latin1'), label)).toBe('café');
      expect(decodeText(Buffer.from('café'), label)).toBe('café');
    },
  );

  it('never throws, and gives text without NULs, for any bytes under any of these labels', () => {
    let seed = 1;
    const next = () => {
      seed = (seed * 48_271) % 0x7fffffff;
      return seed & 0xff;
    };
    for (const [label] of SAMPLES) {
      for (let round = 0; round < 50; round++) {
        const bytes = Buffer.from(Array.from({ length: 1 + (next() % 40) }, next));
        expect(decodeText(bytes, label)).not.toContain('\0');
      }
    }
  });

  it('takes UTF-8 under the label of a charset in which it is invalid', () => {
    for (const label of ['gb2312', 'euc-kr', 'shift_jis', 'iso-2022-jp', 'us-ascii', 'hz'])
      expect(decodeText(Buffer.from('café – naïve'), label)).toBe('café – naïve');
  });
});

const JAPANESE = 'お知らせです。会議は月曜日に開きます。';
const SHIFT_JIS = '82a8926d82e782b982c582b7814289ef8b6382cd8c8e976a93fa82c98a4a82ab82dc82b78142';
const EUC_JP = 'a4aac3cea4e9a4bba4c7a4b9a1a3b2f1b5c4a4cfb7eecdcbc6fca4cbb3aba4ada4dea4b9a1a3';

describe('text without a label', () => {
  it.each([
    [SHIFT_JIS, JAPANESE],
    [EUC_JP, JAPANESE],
    ['1b244232713544244f376e4d4b467c1b2842', '会議は月曜日'],
  ])('in Japanese', async (hex, text) => {
    const bytes = Buffer.from(hex, 'hex').toString('latin1');
    expect(await extract([`Subject: ${bytes}`], bytes)).toMatchObject({
      subject: text,
      body: text,
    });
    expect(decodeText(Buffer.from(hex, 'hex'), 'us-ascii')).toBe(text);
  });

  it.each([
    ['Western', 'Grüße aus Köln – «déjà vu» ñandú ¿qué? ‚ƒ„'],
    ['with many accents', 'éèêë àâä ùûü ôö îï çÇ ÉÈÊË'],
    ['signs only', '¤©®°±²³´µ¶·¸¹º»¼½¾'],
  ])('in windows-1252, %s', (_, text) => {
    const bytes = Buffer.from(
      [...text].map((char) => {
        const signs: Readonly<Record<string, number>> = {
          '–': 0x96,
          '‚': 0x82,
          ƒ: 0x83,
          '„': 0x84,
        };
        return signs[char] ?? char.charCodeAt(0);
      }),
    );
    expect(decodeText(bytes, null)).toBe(text);
  });

  it('is not taken for Japanese in Russian, Greek, Chinese or Korean', () => {
    const samples = [
      // windows-1251, koi8-r, cp866, windows-1253, GBK, Big5, EUC-KR
      'cfeee7e4f0e0e2ebffe520e220edeee2fbec20e3eee4eeec2c20e2f1e5ec20e7e4eef0eee2fcff',
      'f0cfdac4d2c1d7ccd1c520d720cec7d7d9cd20c7cfc4cfcd',
      '82a0e1ef2082aea2a02082a5e0a020e1aae0a8afaae0',
      'cae1ebe7ecddf1e120f3e5202e20c5dfedfee920ddf4f3e9',
      'c4e3bac3a3acceD2c3c7d4dabbe1d2e9cad2'.toLowerCase(),
      'a741a6f4a141a7dacccea6baa55cb7c7',
      'bec8b3e7c7cfbcbcbfe42ec8b8c0c7bdc7bfa1bcad',
    ];
    for (const hex of samples)
      expect(decodeText(Buffer.from(hex, 'hex'), null)).not.toMatch(/[\u3041-\u30fe]/);
  });
});

describe('encoded words whose bytes are not what their charset says', () => {
  it.each([
    ['=?unknown-8bit?Q?caf=E9_terrace?=', 'café terrace'],
    ['=?utf-8?Q?caf=E9_terrace?=', 'café terrace'],
    ['=?us-ascii?Q?caf=C3=A9_terrace?=', 'café terrace'],
    ['=?us-ascii?Q?caf=E9_terrace?=', 'café terrace'],
    ['=?x-nobody-knows?B?Y2Fmw6k=?=', 'café'],
    ['=?gb2312?Q?caf=C3=A9_=E2=80=93?=', 'café –'],
    ['=?iso-8859-1*fr?Q?caf=E9?=', 'café'],
    ['=?ISO-8859-1?Q?it=92s?=', 'it’s'],
    // Characters that are cut between words, in both encodings; white space between words is none of the text.
    ['=?utf-8?B?Y2Fmww==?= =?utf-8?B?qQ==?=', 'café'],
    ['=?utf-8?B?Y2Fmw?=\r\n =?utf-8?B?6k=?=', 'café'],
    ['=?utf-8?Q?caf=C3?= =?UTF-8?Q?=A9?=', 'café'],
    ['=?utf-8?Q?caf=C3?= =?utf-8?B?qQ==?=', 'café'],
    ['=?utf-8?Q?caf=C3=A9?= =?iso-8859-1?Q?_=E9t=E9?= now', 'café été now'],
    ['one =?utf-8?Q?caf=C3=A9?= two', 'one café two'],
    ['=?utf-8?Q?What?_caf=C3=A9?=', 'What? café'],
    ['=?utf-8?Q?caf= C3=A9 bar?=', 'café bar'],
    ['=?utf-8?Q??=', ''],
    ['=?utf-8?Q?open', '=?utf-8?Q?open'],
    ['=?utf-8?X?none?=', '=?utf-8?X?none?='],
    ['1 =? 2 =?utf-8?q?=C3=A9?= =?', '1 =? 2 é =?'],
  ])('%s', async (value, expected) => {
    expect((await extract([`Subject: ${value}`])).subject).toBe(expected);
  });

  it('also in names of people and of files', async () => {
    const { from, attachments } = await extract(
      [
        'From: =?US-ASCII?Q?Ren=C3=A9?= <r@example.org>',
        'Content-Type: multipart/mixed; boundary=b',
      ],
      [
        'Content-Disposition: attachment; filename="=?unknown?Q?caf=E9.bin?="',
        "Content-Disposition: attachment; filename*=utf-8''caf%E9.bin",
        'Content-Disposition: attachment; filename="caf\xe9.bin"',
        'Content-Disposition: attachment; filename="caf\xc3\xa9.bin"',
        "Content-Disposition: attachment; filename*0*=us-ascii''caf%C3; filename*1*=%A9.bin",
        'Content-Type: application/pdf; name="=?us-ascii?B?Y2Fmw6kuYmlu?="',
        'Content-Disposition: attachment;\r\n filename="=?utf-8?Q?caf=C3?=\r\n =?utf-8?Q?=A9.bin?="',
      ]
        .map((field) => `--b\r\n${field}\r\n\r\n\r\n`)
        .join('') + '--b--\r\n',
    );
    expect(from).toBe('René <r@example.org>');
    expect(attachments.map(({ filename }) => filename)).toEqual(Array(7).fill('café.bin'));
  });

  it('takes linear time', async () => {
    const words = ['=?a?q?', '=?utf-8?Q?=C3', '=?utf-8?B?', '=? ', '=?utf-8?Q?x?= '];
    for (const word of words) {
      const { subject } = await extract([`Subject: ${word.repeat(200_000 / word.length)}`]);
      expect(subject.length).toBeGreaterThan(0);
    }
  });
});

describe('pages that name their charset themselves', () => {
  const KOI8 = '\xd3\xc9\xce\xc9\xc3\xc1';
  it.each([
    `<html><head><meta http-equiv="Content-Type" content="text/html; charset=koi8-r"></head>${KOI8}`,
    `<meta charset=koi8-r>${KOI8}`,
    `<!-- <meta charset=big5> --><META CHARSET = 'KOI8-R' />${KOI8}`,
    `<?xml version="1.0" encoding="koi8-r"?><html>${KOI8}</html>`,
  ])('as a body and attached: %j', async (page) => {
    for (const label of [null, 'us-ascii', 'unknown-8bit']) {
      const type = `text/html${label === null ? '' : `; charset=${label}`}`;
      expect((await extract([`Content-Type: ${type}`], page)).body).toBe('синица');
      const bytes = Buffer.from(page, 'latin1');
      const info = { ...PLAIN_TEXT, contentType: 'text/html', charset: label };
      const form = attachmentForm(info, bytes);
      expect(await documentText(bytes, form ?? '', ATTACHMENT_LIMITS)).toMatchObject({
        text: 'синица',
      });
    }
  });

  it('but what the mail says counts for more, and so does UTF-8', async () => {
    const named = ['Content-Type: text/html; charset=koi8-r'];
    expect((await extract(named, `<meta charset=windows-1251>${KOI8}`)).body).toBe('синица');
    const utf8 = Buffer.from('синица').toString('latin1');
    for (const own of ['koi8-r', 'utf-16', 'none', 'utf-8'])
      expect(
        (await extract(['Content-Type: text/html'], `<meta charset=${own}>${utf8}`)).body,
      ).toBe('синица');
    expect((await extract(['Content-Type: text/html'], '<meta charset=utf-16>caf\xe9')).body).toBe(
      'café',
    );
  });
});
