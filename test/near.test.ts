import assert from 'node:assert/strict'
import { test } from 'node:test'
import { listDrills } from './harness/drills.ts'
import { importGraph } from './harness/imports.ts'
import { isFast, testsNear } from './harness/near.ts'

const graph = await importGraph('{src,test,dev,bench}/**/*.ts')

test('--near selects the tests that import a file, those beside it, and those that start its part of the program', () => {
  const near = (file: string) => testsNear(file, graph)
  assert.ok(near('src/kernel/ids.ts').includes('src/kernel/ids.test.ts'))
  assert.ok(near('src/agent/disk/record_log.ts').includes('test/agent/record_log.test.ts'))
  assert.ok(near('src/resources/api_keys/store.ts').includes('src/resources/api_keys/routes.test.ts'))
  assert.ok(near('src/publisher/publisher.ts').includes('test/agent/distribution.test.ts'))
  assert.ok(!near('src/publisher/publisher.ts').includes('test/cli/table.test.ts'))
  assert.deepEqual(near('test/harness/near.ts'), ['test/near.test.ts'])
  assert.throws(() => near('src/kernel/nothing.ts'), /there is no file/)
})

test('every source file has tests near it', () => {
  const sources = [...graph.keys()].filter((file) => file.startsWith('src/') && !file.endsWith('.test.ts'))
  assert.deepEqual(
    sources.filter((file) => testsNear(file, graph).length === 0),
    [],
  )
})

test('the fast tests start no edge node', () => {
  const fast = [...graph.keys()].filter((file) => file.endsWith('.test.ts') && isFast(file, graph))
  assert.ok(fast.includes('src/kernel/ids.test.ts') && fast.includes('test/specification/edges.test.ts'))
  const withNode = testsNear('test/harness/edge.ts', graph)
  assert.deepEqual(
    fast.filter((file) => withNode.includes(file)),
    [],
  )
})

test('every drill says at the top of its file how to start it and what it shows', async () => {
  const drills = await listDrills()
  assert.ok(drills.length > 30)
  assert.ok(drills.some(({ name, onMachine }) => name === 'boot' && onMachine))
})
