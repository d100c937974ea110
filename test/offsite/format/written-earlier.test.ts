import { expect, test } from 'vitest';
import { readKeyObject, readSigner, unwrapWith } from '../../../src/copies/format/keys.ts';

/** Objects that lie in copies: a program that cannot read them loses the copy. */
const key = {
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
const signer = {
  name: 'signers/21d65ecaad3469c9794c973f734f90ef',
  bytes: Buffer.from(
    `{"copy":"01010101010101010101010101010101","id":"21d65ecaad3469c9794c973f734f90ef","key":"cfa570c653bd212b",\
"mac":"d97ed3a62a84ab1b1ccc39c927855537f266eb3e22a3e291c7195105ce3a49b4","mailkeep":"copy signer 1",\
"signer":"CAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAg="}`,
  ),
};

test('a recipient and a signer that were written earlier are still read', async () => {
  const secrets = await unwrapWith(readKeyObject(key), {
    type: 'recovery',
    recovery: Buffer.alloc(16, 6),
  });
  expect(secrets).toEqual({
    copyId: Buffer.alloc(16, 1),
    privateKeys: [Buffer.alloc(32, 2), Buffer.alloc(32, 3)],
    nameKey: Buffer.alloc(32, 4),
    signer: Buffer.alloc(32, 5),
  });
  if (secrets !== undefined) expect(readSigner(signer, secrets)).toEqual(Buffer.alloc(32, 8));
});
