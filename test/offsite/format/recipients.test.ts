import { randomBytes } from 'node:crypto';
import { generateIdentity, identityToRecipient } from 'age-encryption';
import { describe, expect, test } from 'vitest';
import {
  type CopySecrets,
  encodeSigner,
  type KeyObject,
  newCopyKeys,
  newRecoveryKey,
  parseIdentities,
  parseRecoveryKey,
  parseRecoveryLine,
  RECOVERY_BYTES,
  readKeyObject,
  readSigner,
  recoveryLines,
  SCRYPT_COST,
  unlock,
  unwrapWith,
  type WrappedKeys,
  wrapForAge,
  wrapForPassphrase,
  wrapForRecovery,
} from '../../../src/copies/format/keys.ts';
import { recipientName } from '../../../src/copies/format/manifest.ts';
import { canonicalBytes } from '../../../src/copies/format/sealed-object.ts';
import { describeError, hasCode, MailkeepError } from '../../../src/core/errors.ts';
import { flipped, noise, numbers } from './sample.ts';

/** The least that is read, so that tests are quick. */
const CHEAP = { N: 2 ** 10, r: 8, p: 1 };
const note = { created: 1_800_000_000_000, label: 'the safe' };

function newSecrets(rotations = 0): CopySecrets {
  const { copyId, privateKey, nameKey } = newCopyKeys();
  const later = Array.from(Array(rotations), () => newCopyKeys().privateKey);
  return { copyId, privateKeys: [...later, privateKey], nameKey, signer: randomBytes(32) };
}

const secrets = newSecrets(1);
const recovery = newRecoveryKey();

function unwrapWithPassphrase(keys: WrappedKeys, passphrase: string) {
  return unwrapWith(keys, { type: 'passphrase', passphrase });
}

function unwrapWithRecovery(keys: WrappedKeys, secret: Buffer) {
  return unwrapWith(keys, { type: 'recovery', recovery: secret });
}

/** What became of a changed object: the code it was refused with, or that it did not open. */
async function outcome({ name, bytes }: KeyObject, open = unwrapWithRecovery, secret = recovery) {
  try {
    const opened = await open(readKeyObject({ name, bytes }), secret);
    return opened === undefined ? 'refused' : 'opened';
  } catch (error) {
    if (!(error instanceof MailkeepError)) throw error;
    return `${error.code} ${error.facts.reason}`;
  }
}

function fieldsOf({ bytes }: KeyObject): Record<string, unknown> {
  return JSON.parse(bytes.toString('utf8'));
}

function changed(object: KeyObject, fields: Record<string, unknown>): KeyObject {
  return { ...object, bytes: canonicalBytes({ ...fieldsOf(object), ...fields }) };
}

describe('secrets come back', () => {
  test('with the passphrase, at the cost that is written', async () => {
    const object = await wrapForPassphrase(secrets, 'Grüße aus Ülm', note);
    const keys = readKeyObject(object);
    expect(keys).toMatchObject({ type: 'passphrase', label: 'the safe', cost: SCRYPT_COST });
    expect(SCRYPT_COST.N).toBe(131_072);
    // Typed on a system that composes letters in another way.
    const typed = 'Grüße aus Ülm'.normalize('NFD');
    expect(await unwrapWithPassphrase(keys, typed)).toEqual(secrets);
  });

  test('with the recovery key', async () => {
    const keys = readKeyObject(await wrapForRecovery(secrets, recovery, note));
    expect(keys).toMatchObject({ type: 'recovery', cost: null, created: note.created });
    expect(await unwrapWithRecovery(keys, recovery)).toEqual(secrets);
    expect(await unwrapWithRecovery(keys, newRecoveryKey())).toBeUndefined();
    expect(await unwrapWithPassphrase(keys, 'x')).toBeUndefined();
  });

  test('with an age identity, also from a file with comments and others', async () => {
    const identity = await generateIdentity();
    const object = await wrapForAge(secrets, await identityToRecipient(identity), note);
    const file = `# created: 2026\n# public key: age1…\n${await generateIdentity()}\n\n${identity}\r\n`;
    const identities = await parseIdentities(file);
    expect(identities).toHaveLength(2);
    expect(await unlock([readKeyObject(object)], { type: 'age', identities })).toEqual(secrets);
    const others = { type: 'age', identities: identities.slice(0, 1) } as const;
    await expect(unlock([readKeyObject(object)], others)).rejects.toSatisfy((error) =>
      hasCode(error, 'copy-key-refused'),
    );
  });
});

test('what a recipient shows contains no secret', async () => {
  const object = await wrapForRecovery(secrets, recovery, { created: 1 });
  const { name, bytes } = object;
  expect(Object.keys(fieldsOf(object)).sort()).toEqual([
    ...['copy', 'created', 'id', 'key', 'mailkeep', 'salt', 'type', 'wrapped'],
  ]);
  const hidden = [...secrets.privateKeys, secrets.nameKey, secrets.signer, recovery];
  for (const one of hidden) {
    for (const text of [one.toString('base64'), one.toString('hex')]) {
      expect(bytes.toString('utf8').includes(text)).toBe(false);
    }
  }
  expect(name).toMatch(/^keys\/[0-9a-f]{32}$/);
});

describe('a changed recipient is refused', () => {
  test('for every flipped bit', async () => {
    const object = await wrapForRecovery(secrets, recovery, note);
    for (let bit = 0; bit < 8 * object.bytes.length; bit += 1) {
      const bytes = flipped(object.bytes, bit);
      expect([bit, await outcome({ ...object, bytes })]).not.toEqual([bit, 'opened']);
    }
  });

  test('under another name, of another copy, with another note', async () => {
    const object = await wrapForRecovery(secrets, recovery, note);
    const { name, id } = recipientName('keys');
    expect(await outcome({ ...object, name })).toBe('copy-key-damaged name');
    const renamed = { ...changed(object, { id }), name };
    expect(await outcome(renamed)).toBe('copy-key-damaged clear');
    expect(await outcome(changed(object, { label: 'mine' }))).toBe('copy-key-damaged clear');
    expect(await outcome(changed(object, { created: 0 }))).toBe('copy-key-damaged clear');
    const copy = '0'.repeat(32);
    expect(await outcome(changed(object, { copy }))).toBe('copy-key-damaged clear');
  });

  test('with parameters that nobody should compute', async () => {
    const object = await wrapForPassphrase(secrets, 'x', note, CHEAP);
    const bad: Record<string, unknown>[] = [
      { N: 2 ** 21 },
      { N: 2 ** 17 + 1 },
      { N: 2 },
      { N: 0 },
      { N: -1024 },
      { N: 1024.5 },
      { N: '1024' },
      { r: 9 },
      { r: 0 },
      { r: 2 ** 40 },
      { p: 5 },
      { p: 0.5 },
    ];
    for (const fields of bad) {
      const found = await outcome(changed(object, fields), async () => undefined);
      expect([fields, found]).toEqual([fields, 'copy-key-damaged cost']);
    }
  });

  test('as odd JSON', async () => {
    const object = await wrapForRecovery(secrets, recovery, note);
    const text = object.bytes.toString('utf8');
    const odd = [
      '',
      'null',
      '[]',
      '{}',
      '[['.repeat(100_000),
      `{"a":${'['.repeat(10_000)}${']'.repeat(10_000)}}`,
      ` ${text}`,
      `${text}\n`,
      text.replace('{', '{ '),
      text.replace('{', '{"copy":"x",'),
      text.replace('{', '{"__proto__":"x",'),
      text.replace('}', ',"x":1}'),
      text.replace('"recovery"', '"toString"'),
      text.replace('copy key 1', 'copy key 2'),
      text.padEnd(70_000, ' '),
    ];
    for (const one of odd) {
      const found = await outcome({ ...object, bytes: Buffer.from(one) });
      expect([one.slice(0, 40), found]).toEqual([one.slice(0, 40), 'copy-key-damaged shape']);
    }
    const invalid = Buffer.from(text.replace('the safe', 'the s\u00e9fe'), 'latin1');
    expect(await outcome({ ...object, bytes: invalid })).toBe('copy-key-damaged shape');
  });
});

describe('of several recipients', () => {
  test('the one of the last rotation is taken', async () => {
    const older = { ...secrets, privateKeys: secrets.privateKeys.slice(1) };
    const objects = [
      await wrapForPassphrase(secrets, 'x', note, CHEAP),
      await wrapForRecovery(older, recovery, note),
      await wrapForRecovery(secrets, recovery, note),
      await wrapForRecovery(older, recovery, note),
      await wrapForRecovery(newSecrets(), newRecoveryKey(), note),
    ].map(readKeyObject);
    expect(await unlock(objects, { type: 'recovery', recovery })).toEqual(secrets);
    expect(await unlock(objects, { type: 'passphrase', passphrase: 'x' })).toEqual(secrets);
  });

  test('one that was made by somebody else for a known age recipient is noticed', async () => {
    const identity = await generateIdentity();
    const recipient = await identityToRecipient(identity);
    const forgeries: CopySecrets[] = [
      { ...secrets, signer: randomBytes(32) },
      { ...secrets, nameKey: randomBytes(32) },
      { ...secrets, privateKeys: [newCopyKeys().privateKey] },
      { ...secrets, privateKeys: [...secrets.privateKeys, newCopyKeys().privateKey] },
      newSecrets(),
    ];
    for (const forged of forgeries) {
      const objects = [secrets, forged].map((one) => wrapForAge(one, recipient, note));
      const recipients = (await Promise.all(objects)).map(readKeyObject);
      await expect(unlock(recipients, { type: 'age', identities: [identity] })).rejects.toSatisfy(
        (error) => hasCode(error, 'copy-keys-differ'),
      );
    }
  });

  test('damaged ones do not hide an intact one, and too many are not tried', async () => {
    const object = await wrapForRecovery(secrets, recovery, note);
    const intact = readKeyObject(object);
    const damaged = readKeyObject(changed(object, { label: 'mine' }));
    const way = { type: 'recovery', recovery } as const;
    expect(await unlock([damaged, intact], way)).toEqual(secrets);
    await expect(unlock([damaged], way)).rejects.toSatisfy((error) =>
      hasCode(error, 'copy-key-damaged'),
    );
    await expect(unlock(Array(65).fill(intact), way)).rejects.toSatisfy((error) =>
      hasCode(error, 'copy-keys-too-many'),
    );
    await expect(unlock([], way)).rejects.toMatchObject({ facts: { tried: 0 } });
    await expect(unlock([intact], way, AbortSignal.abort())).rejects.toThrow(/abort/);
  });
});

describe('age', () => {
  test('recipients and identities that are none are refused, and no identity is repeated', async () => {
    const identity = await generateIdentity();
    for (const found of ['', 'x', 'age1', identity, `${await identityToRecipient(identity)}x`]) {
      await expect(wrapForAge(secrets, found, note)).rejects.toSatisfy(
        (error) =>
          hasCode(error, 'copy-age-recipient') &&
          !`${describeError(error).message} ${error}`.includes(identity.slice(20, 40)),
      );
    }
    const broken = `${identity.slice(0, -1)}${identity.endsWith('Q') ? 'P' : 'Q'}`;
    for (const [text, line] of [
      ['', null],
      ['# none', null],
      [`# one\n${broken}`, 2],
      [`${identity}\nage1xyz`, 2],
    ] as const) {
      try {
        await parseIdentities(text);
        expect.unreachable();
      } catch (error) {
        expect(error).toMatchObject({ code: 'copy-age-identity', facts: { line } });
        const { message } = describeError(error);
        expect(`${message} ${String(error)}`).not.toContain(broken.slice(20, 40));
      }
    }
  });
});

describe('a later signer', () => {
  const signer = randomBytes(32);
  const object = encodeSigner(secrets, signer);

  test('is read by those who can read the copy', () => {
    expect(readSigner(object, secrets)).toEqual(signer);
  });

  test('is refused for every flipped bit, under another name, and in another copy', () => {
    for (let bit = 0; bit < 8 * object.bytes.length; bit += 1) {
      const bytes = Buffer.from(object.bytes);
      bytes[bit >> 3] = (bytes[bit >> 3] ?? 0) ^ (1 << (bit & 7));
      expect(() => readSigner({ ...object, bytes }, secrets), `bit ${bit}`).toThrow(
        /copy-signer-damaged/,
      );
    }
    const { name, id } = recipientName('signers');
    expect(() => readSigner({ ...object, name }, secrets)).toThrow(/"name"/);
    expect(() => readSigner({ ...changed(object, { id }), name }, secrets)).toThrow(/"mac"/);
    const other = { ...secrets, copyId: randomBytes(16) };
    expect(() => readSigner(object, other)).toThrow(/"other-copy"/);
    expect(() => readSigner(encodeSigner(newSecrets(), signer), secrets)).toThrow(/"other-copy"/);
  });

  test('cannot be made by a writer, nor with a key of before a rotation', () => {
    const [, older] = secrets.privateKeys;
    const stolen = { ...secrets, privateKeys: [older ?? Buffer.alloc(0)] };
    expect(() => readSigner(encodeSigner(stolen, signer), secrets)).toThrow(/"older-key"/);
    const guessed = { ...secrets, privateKeys: [randomBytes(32)] };
    expect(() => readSigner(encodeSigner(guessed, signer), secrets)).toThrow(/"mac"/);
  });

  test('is different from every flip of random bits too', () => {
    const next = numbers(7);
    for (let n = 0; n < 200; n += 1) {
      const bytes = Buffer.from(object.bytes);
      for (let flips = 0; flips < 3; flips += 1) {
        const at = next(bytes.length);
        bytes[at] = (bytes[at] ?? 0) ^ (1 + next(255));
      }
      if (bytes.equals(object.bytes)) continue;
      expect(() => readSigner({ ...object, bytes }, secrets)).toThrow(/copy-signer-damaged/);
    }
  });
});

const DIGITS = '0123456789ABCDEFGHJKMNPQRSTVWXYZ';
const key = noise(RECOVERY_BYTES, 'recovery');
const lines = recoveryLines(key);
const text = lines.join('\n');

/** The facts of the error that a text is refused with; undefined if it is taken. */
function refusal(parse: () => unknown): MailkeepError['facts'] | undefined {
  try {
    parse();
    return undefined;
  } catch (error) {
    if (!(error instanceof MailkeepError)) throw error;
    return { code: error.code, ...error.facts };
  }
}

test('a key is read as it is written, and as people write it', () => {
  for (const other of [key, newRecoveryKey(), Buffer.alloc(16), Buffer.alloc(16, 0xff)]) {
    const written = recoveryLines(other);
    for (const line of written)
      expect(line).toMatch(/^[0-9A-HJKMNP-TV-Z]{4}-[0-9A-HJKMNP-TV-Z]{4}$/);
    expect(parseRecoveryKey(written.join('\n')).equals(other)).toBe(true);
  }
  const forms = [
    text.toLowerCase(),
    text.replaceAll('-', ''),
    text.replaceAll('-', ' - '),
    `\n\n  ${lines.join('\r\n\r\n')}\t\n`,
    lines.join(' '),
    text.replaceAll(/[-\n]/g, ''),
    `${lines[0]} ${lines[1]}\n${lines[2]} ${lines[3]}`,
    text.replaceAll('0', 'o').replaceAll('1', 'l'),
    text.replaceAll('0', 'O').replaceAll('1', 'I'),
  ];
  for (const form of forms)
    expect([form, parseRecoveryKey(form).equals(key)]).toEqual([form, true]);
  expect(Buffer.concat(lines.map((line, index) => parseRecoveryLine(line, index + 1)))).toEqual(
    key,
  );
});

test('keys that were written down stay what they are', () => {
  expect(recoveryLines(Buffer.from('000102030405060708090a0b0c0d0e0f', 'hex'))).toEqual([
    '000G-40TY',
    '0G2G-C1YZ',
    '104G-M2R3',
    '1G6G-W3YT',
  ]);
});

describe('a mistake is found, and in the right line:', () => {
  test('every wrong character', () => {
    for (let number = 1; number <= 4; number += 1) {
      const plain = (lines[number - 1] ?? '').replace('-', '');
      for (let at = 0; at < 8; at += 1) {
        for (const digit of DIGITS) {
          if (digit === plain[at]) continue;
          const wrong = `${plain.slice(0, at)}${digit}${plain.slice(at + 1)}`;
          const typed = lines.map((line, index) => (index === number - 1 ? wrong : line));
          expect(refusal(() => parseRecoveryKey(typed.join('\n')))).toMatchObject({
            code: 'copy-recovery-line',
            line: number,
          });
        }
      }
    }
  });

  test('every exchange of two characters', () => {
    for (let seed = 0; seed < 20; seed += 1) {
      const [line = ''] = recoveryLines(noise(RECOVERY_BYTES, `exchange ${seed}`));
      const plain = [...line.replace('-', '')];
      for (let a = 0; a < 8; a += 1) {
        for (let b = 0; b < a; b += 1) {
          if (plain[a] === plain[b]) continue;
          const wrong = plain
            .with(a, plain[b] ?? '')
            .with(b, plain[a] ?? '')
            .join('');
          expect([wrong, refusal(() => parseRecoveryLine(wrong, 1))?.line]).toEqual([wrong, 1]);
        }
      }
    }
  });

  test('lines in another order', () => {
    const [one = '', two = '', three = '', four = ''] = lines;
    const order = (...typed: string[]) => refusal(() => parseRecoveryKey(typed.join('\n')));
    const wrong = { code: 'copy-recovery-line', reason: 'order' };
    expect(order(two, one, three, four)).toEqual({ ...wrong, line: 1, seems: 2 });
    expect(order(one, four, three, two)).toEqual({ ...wrong, line: 2, seems: 4 });
    expect(order(one, two, four, three)).toEqual({ ...wrong, line: 3, seems: 4 });
    expect(order(one, two, three, three)).toEqual({ ...wrong, line: 4, seems: 3 });
  });

  test('missing, added and impossible characters', () => {
    const typed = (line: string) => [lines[0], line, ...lines.slice(2)].join('\n');
    const second = lines[1] ?? '';
    const reasons = [
      second.slice(1),
      `${second}0`,
      `U${second.slice(1)}`,
      `é${second.slice(1)}`,
    ].map((line) => refusal(() => parseRecoveryKey(typed(line))));
    expect(reasons.map((one) => one?.reason)).toEqual([
      'length',
      'length',
      'character',
      'character',
    ]);
    expect(reasons.map((one) => one?.line)).toEqual([2, 2, 2, 2]);
    const shape = { code: 'copy-recovery-shape' };
    expect(refusal(() => parseRecoveryKey(''))).toEqual({ ...shape, lines: 0, characters: 0 });
    expect(refusal(() => parseRecoveryKey(lines.slice(1).join('\n')))).toEqual({
      ...{ ...shape, lines: 3, characters: 24 },
    });
    expect(refusal(() => parseRecoveryKey(`${text}\n${text}`))).toMatchObject(shape);
  });
});

test('no refusal repeats what was typed', () => {
  const wrong = [text.replace(/^./, 'U'), lines.toReversed().join('\n'), text.slice(5)];
  for (const typed of wrong) {
    try {
      parseRecoveryKey(typed);
      expect.unreachable();
    } catch (error) {
      const { message, hint } = describeError(error);
      const shown = `${message} ${hint} ${String(error)}`;
      for (const group of text.split(/[-\n]/)) expect(shown).not.toContain(group);
    }
  }
});

/** Objects that lie in copies: a program that cannot read them loses the copy. */
const writtenKey = {
  name: 'keys/8087aaf8b2bed96ac0369c67412b0a8f',
  bytes: Buffer.from(
    `{"copy":"01010101010101010101010101010101","created":7,"id":"8087aaf8b2bed96ac0369c67412b0a8f",\
"mailkeep":"copy key 1","salt":"JEZVyOh9zY26HzC3z3PoGxQS0ktRORB8KXCH0crP9pk=","type":"recovery",\
"wrapped":"N1rimiSIMS1VQsImaEj492c92hRQXs7QOgIaUp5pKAErGATcMirQ4RTfuyW5r7gkjV89BnJTmlgdWEnhpXbJVwgCdmnoQYTc/3j4/j/b\
kOvFFuAWusrFAUvcST/gVnO1whwWI9k0Fivc477qI+JQQHjKC9tNzxbK3DMQaDvubTA5L4QbRKITbh4rb76tRX7N8CMu6hMqPtSjOvXJ0W40/a9t9xfV\
BCArAZ5STTdGBlstyl7zLvoB46BtgcbjmDHFPIqYTOWKoyTQALWCrs9qXOpvXFhEJcW10eZHB+CCLinTzZRHQoljV352qKmJ/XTgNWxaCuYMW7fmLNcD\
uWKd/Lo2s6vycz/choy9EnHEJVIYqf0rQemtRGYFvhQmjd+SFTcLzXOEPOK7J2l4uEeQfcpCYLanG+kjBDOPq5WalifAJDgyRxv00Bv5tdw65rzx36lR\
cyVQo9g1J2YdEv1GTayd2xTi"}`,
  ),
};
const writtenSigner = {
  name: 'signers/21d65ecaad3469c9794c973f734f90ef',
  bytes: Buffer.from(
    `{"copy":"01010101010101010101010101010101","id":"21d65ecaad3469c9794c973f734f90ef","key":"cfa570c653bd212b",\
"mac":"d97ed3a62a84ab1b1ccc39c927855537f266eb3e22a3e291c7195105ce3a49b4","mailkeep":"copy signer 1",\
"signer":"CAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAg="}`,
  ),
};

test('a recipient and a signer that were written earlier are still read', async () => {
  const secrets = await unwrapWith(readKeyObject(writtenKey), {
    type: 'recovery',
    recovery: Buffer.alloc(16, 6),
  });
  expect(secrets).toEqual({
    copyId: Buffer.alloc(16, 1),
    privateKeys: [Buffer.alloc(32, 2), Buffer.alloc(32, 3)],
    nameKey: Buffer.alloc(32, 4),
    signer: Buffer.alloc(32, 5),
  });
  if (secrets !== undefined)
    expect(readSigner(writtenSigner, secrets)).toEqual(Buffer.alloc(32, 8));
});
