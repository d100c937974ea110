/** `node --require old-node.cjs …`: a Node.js that gives itself out as an old one. */
Object.defineProperty(process, 'versions', {
  value: Object.freeze({ ...process.versions, node: '20.20.2' }),
});
