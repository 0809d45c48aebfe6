// Every operation of openapi.json can be called with the package, and the compiler knows what it takes and returns.
import assert from 'node:assert/strict'
import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { test } from 'node:test'
import { keyedPosts } from '../../clients/typescript/src/generated/keyed_posts.ts'
import { version } from '../../src/config/version.ts'
import { compile, installClient } from './package.ts'

type Content = Record<string, { schema: { $ref?: string } }>
type Parameter = { name: string; in: string; $ref?: string }
type Operation = {
  parameters?: Parameter[]
  requestBody?: { content: Content }
  responses: Record<string, { content?: Content }>
}
const read = async (name: string) => JSON.parse(await readFile(new URL(`../../${name}`, import.meta.url), 'utf8'))
const paths: Record<string, Record<string, Operation>> = (await read('openapi.json')).paths
const shapeOf = (content: Content | undefined): string | undefined =>
  content?.['application/json']?.schema.$ref?.split('/').at(-1)

/** One with everything that is needed, and one with a parameter that does not exist. */
function callsOf(path: string, method: string, { requestBody, responses }: Operation): string {
  const names = [...path.matchAll(/\{(\w+)\}/g)].map(([, name]) => `${name}: 'x'`).join(', ')
  const sent = shapeOf(requestBody?.content)
  const call = (query: string) => {
    const params = [names && `path: { ${names} }`, query].filter(Boolean).join(', ')
    const options = [params && `params: { ${params} }`, sent && `body: {} as Shapes['${sent}']`].filter(Boolean)
    return `await client.${method.toUpperCase()}('${path}', { ${options.join(', ')} })`
  }
  const success = Object.entries(responses).find(([status]) => status.startsWith('2'))?.[1].content
  const returned = success && (shapeOf(success) ? `Shapes['${shapeOf(success)}']` : 'string')
  return `
  { const { data } = ${call('')}; same<${returned ?? 'undefined'}, typeof data>() }
  // @ts-expect-error: no such parameter.
  ${call('query: { nothing: 1 }')}`
}

test('a call of every operation compiles under strict, returns the documented shape, and refuses unknown parameters', async (t) => {
  const calls = Object.entries(paths).flatMap(([path, operations]) =>
    Object.entries(operations).map(([method, operation]) => callsOf(path, method, operation)),
  )
  assert.ok(calls.length > 100)
  const folder = await installClient(t)
  await writeFile(
    join(folder, 'calls.ts'),
    `import type { GatehouseClient, Shapes } from 'gatehouse-client'
type Same<Wanted, Found> = 0 extends 1 & Found ? false : [Wanted, Found] extends [Found, Wanted] ? true : false
const same = <Wanted, Found>(..._: Same<Wanted, Found> extends true ? [] : ['the response has another type']) => {}
export async function calls(client: GatehouseClient) {${calls.join('')}
}
`,
  )
  const compilerOptions = {
    ...{ target: 'es2024', lib: ['esnext', 'dom', 'dom.iterable'], module: 'nodenext', types: [] },
    ...{ strict: true, noEmit: true },
  }
  await writeFile(join(folder, 'package.json'), '{"type": "module"}')
  await writeFile(join(folder, 'tsconfig.json'), JSON.stringify({ compilerOptions, include: ['calls.ts'] }))
  await compile(folder)
  t.diagnostic(`${calls.length} operations`)
})

test('the client repeats those creations for which openapi.json has an Idempotency-Key', () => {
  const documented = Object.entries(paths).filter(([, { post }]) =>
    post?.parameters?.some(({ $ref }) => $ref === '#/components/parameters/IdempotencyKey'),
  )
  assert.ok(documented.length > 15)
  assert.deepEqual([...keyedPosts].sort(), documented.map(([path]) => path).sort())
})

test('the client has the version of the product', async () => {
  assert.equal((await read('clients/typescript/package.json')).version, version)
})
