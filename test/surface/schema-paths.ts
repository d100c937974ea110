import { z } from 'zod';

/** The part of JSON Schema that gives a schema its fields; anything else is a constraint. */
const nodeSchema = z.looseObject({
  get properties() {
    return z.record(z.string(), nodeSchema).optional();
  },
  get items() {
    return nodeSchema.optional();
  },
  get additionalProperties() {
    return z.union([z.boolean(), nodeSchema]).optional();
  },
  get anyOf() {
    return z.array(nodeSchema).optional();
  },
  get oneOf() {
    return z.array(nodeSchema).optional();
  },
  required: z.array(z.string()).optional(),
});
type Node = z.infer<typeof nodeSchema>;

/**
 * Returns the fields of a JSON Schema by their paths, with type, default and constraints. Descriptions are left out:
 * they are prose.
 */
export function schemaPaths(schema: unknown): Record<string, string> {
  const found = new Map<string, Set<string>>();
  walk(nodeSchema.parse(schema), '', '', found);
  return Object.fromEntries([...found].map(([path, texts]) => [path, [...texts].join(' or ')]));
}

function walk(node: Node, path: string, required: string, found: Map<string, Set<string>>): void {
  const alternatives = [...(node.anyOf ?? []), ...(node.oneOf ?? [])];
  const own = constraints(node);
  if (alternatives.length === 0 || own !== '') {
    const texts = found.get(path === '' ? '(root)' : path) ?? new Set();
    const text = [required, own].filter((part) => part !== '').join(' ');
    found.set(path === '' ? '(root)' : path, texts.add(text));
  }
  for (const alternative of alternatives) walk(alternative, path, required, found);
  for (const [key, inner] of Object.entries(node.properties ?? {})) {
    const at = path === '' ? key : `${path}.${key}`;
    walk(inner, at, node.required?.includes(key) === true ? 'required' : 'optional', found);
  }
  if (node.items !== undefined) walk(node.items, `${path}[]`, '', found);
  if (typeof node.additionalProperties === 'object') {
    walk(node.additionalProperties, path === '' ? '*' : `${path}.*`, '', found);
  }
}

const NOT_RECORDED = [
  '$schema',
  'description',
  'expected',
  'properties',
  'propertyNames',
  'items',
  'anyOf',
  'oneOf',
  'required',
];

function constraints(node: Node): string {
  return Object.entries(node)
    .filter(([key, value]) => !NOT_RECORDED.includes(key) && value !== undefined)
    .filter(([key, value]) => key !== 'additionalProperties' || value === false)
    .map(([key, value]) =>
      key === 'type' && typeof value === 'string' ? value : `${key}=${JSON.stringify(value)}`,
    )
    .join(' ');
}
