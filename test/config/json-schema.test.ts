import { readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { z } from 'zod';
import { jsonSchemaText } from '../../src/config/json-schema.ts';
import { configSchema } from '../../src/config/schema.ts';

const root = new URL('../../', import.meta.url);

test('config.schema.json is what the validation gives (npm run schema writes it)', () => {
  expect(readFileSync(new URL('config.schema.json', root), 'utf8')).toBe(jsonSchemaText());
});

test('the schema says what editors need: required fields, no others, a description each', () => {
  const schema = z
    .object({ required: z.array(z.string()), additionalProperties: z.literal(false) })
    .parse(JSON.parse(jsonSchemaText()));
  expect(schema.required).toEqual(['accounts']);
  expect(jsonSchemaText()).not.toContain('"expected"');
});

test('the example config is valid and shows the defaults', () => {
  const example: unknown = JSON.parse(readFileSync(new URL('config.example.json', root), 'utf8'));
  const parsed = configSchema.parse(example);
  const least = configSchema.parse({
    accounts: parsed.accounts.map(({ name, baseUrl, token }) => ({ name, baseUrl, token })),
  });
  const { $schema, accounts, webhook, health, ...settings } = parsed;
  const { accounts: _accounts, ...defaults } = least;
  expect($schema).toBe('./config.schema.json');
  expect(settings).toEqual(defaults);
  expect(accounts).toHaveLength(1);
  expect(webhook).toBeUndefined();
  expect(health).toBeUndefined();
});
