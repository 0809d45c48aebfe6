import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { routes } from '../../src/resources/routes.ts'
import type { Answer } from '../harness/client.ts'
import { nothingWasADefect } from '../harness/defects.ts'
import { headersOf, rawExchange } from '../harness/raw.ts'
import { bodyWith, fieldsOf, nameOf, pathOf, type Schema, sample, wrongValues } from '../harness/schemas.ts'
import { sharedControlPlane } from '../harness/shared_control_plane.ts'
import { isThorough } from '../harness/thorough.ts'

// Made from the list of routes, so that a new route is held to all of this from its first day.

const plane = await sharedControlPlane({ after })
const admin = await plane.newAccount()

function assertRefused({ status, body }: Answer, field: string, what: string): void {
  assert.deepEqual([status, body?.error_code, body?.details.field], [400, 'ERR_INVALID_FIELD', field], what)
}

const withBody = routes.filter(({ body }) => body)
const show = (value: unknown) => JSON.stringify(value).slice(0, 80)

test('the test finds routes with fields', () => {
  assert.ok(withBody.length >= 6)
  const withoutFields = withBody.filter(({ body }) => fieldsOf(body).length === 0)
  assert.deepEqual(
    withoutFields.map(({ operation }) => operation),
    [
      ...['reserved_domains.verify', 'change_sets.preview', 'change_sets.confirm', 'change_sets.withdraw'],
      ...['audit_events.revert', 'change_sets.revert', 'rollouts.revert', 'webhook_destinations.test'],
      'alert_rules.test',
    ],
  )
})

for (const route of withBody) {
  const { operation, method } = route
  const path = pathOf(route)
  const schema = route.body as Schema
  const send = (body: unknown) => admin(method, path, body)

  test(`${operation}: a field of the wrong JSON type gets 400 and is named, never converted`, async () => {
    for (const field of fieldsOf(schema)) {
      const wrong = wrongValues(field.schema)
      assert.ok(wrong.length > 0, `${nameOf(field)} takes any type at all`)
      for (const value of wrong) {
        const body = bodyWith(schema, field.path, value)
        assertRefused(await send(body), nameOf(field), show(body))
      }
    }
  })

  test(`${operation}: text that cannot be kept gets 400 and is named`, async () => {
    for (const field of fieldsOf(schema)) {
      if (![field.schema.type].flat().includes('string')) continue
      const maxBytes = field.schema['x-maxBytes'] ?? 0
      const size = Math.max(maxBytes, 4_999) + 1
      // Where much is allowed, just too many bytes: four times as many would be too much for a body.
      const many = (text: string) => text.repeat(maxBytes > 4_999 ? Math.ceil(size / Buffer.byteLength(text)) : size)
      for (const text of ['a\0b', 'a\ud800b', many('x'), many('€'), many('🚀')]) {
        const body = bodyWith(schema, field.path, text)
        assertRefused(await send(body), nameOf(field), show(body))
      }
    }
  })

  test(`${operation}: an unknown field gets 400 and is named`, async () => {
    for (const name of ['nothing', 'Description', '__proto__', 'constructor']) {
      const body = Object.fromEntries([...Object.entries(sample(schema) as object), [name, 'x']])
      assertRefused(await send(body), name, show(body))
    }
  })

  test(`${operation}: a missing required field gets 400 and is named`, async () => {
    for (const name of schema.required ?? []) {
      const { [name]: _, ...rest } = sample(schema) as Record<string, unknown>
      assertRefused(await send(rest), name, `without ${name}`)
    }
  })

  test(`${operation}: a body that is not an object gets 400 and is named`, async () => {
    for (const value of [null, true, 7, 'text', [], [sample(schema)]])
      assertRefused(await send(value), 'body', show(value))
  })

  test(`${operation}: a body of another content type gets 415, and no body gets 400`, async () => {
    const { status } = await admin(method, path, sample(schema), { contentType: 'application/xml' })
    assert.equal(status, 415)
    const empty = await admin(method, path, undefined, { rawBody: '', headers: { 'content-type': 'application/json' } })
    assert.deepEqual([empty.status, empty.body.error_code], [400, 'ERR_INVALID_JSON'])
  })
}

const queryOf = ({ query }: (typeof routes)[number]) => (query?.properties ?? {}) as Record<string, Schema>
const uses = Map.groupBy(
  routes.flatMap((route) => Object.keys(queryOf(route))),
  (name) => name,
)
/** What many routes have, such as dry_run, gets a third of these from each of them, in turn. */
const isTurn = (name: string, index: number) => isThorough || (uses.get(name)?.length ?? 0) < 15 || index % 3 === 0
const nonsense = ['', 'nonsense', '-1', '1.5', '1e1', 'null', '[]', '{}', '%F0%9F%9A%80', '%ff', '%', '%zz']

for (const [number, route] of routes.entries()) {
  const { operation, method, body } = route
  const path = pathOf(route)
  const send = (query: string) => admin(method, `${path}?${query}`, body && sample(body))

  test(`${operation}: an unknown query parameter gets 400 and is named`, async () => {
    for (const name of ['nothing', 'Limit', '__proto__', 'constructor', ''])
      assertRefused(await send(`${name}=1`), name || '""', name)
  })

  for (const [name, schema] of Object.entries(queryOf(route))) {
    test(`${operation}: nonsense in the query parameter ${name} gets 400 and is named`, async () => {
      assertRefused(await send(`${name}=1&${name}=1`), name, 'given twice')
      for (const value of ['%00', 'x'.repeat(5_000)]) assertRefused(await send(`${name}=${value}`), name, value)
      for (const value of nonsense.filter((_, index) => isTurn(name, index + number))) {
        // An empty moment is one that is not given.
        if (value === '' && schema['x-moment']) continue
        // Some are names.
        if (schema['x-domain'] && /^\w+$/.test(value)) continue
        if (schema.pattern && new RegExp(schema.pattern).test(value)) continue
        const answer = await send(`${name}=${value}`)
        // Free text takes any of these and finds nothing under it.
        const checks = ['pattern', 'enum', 'x-moment', 'x-cidr', 'x-hostport', 'x-domain'] as const
        const isChecked = checks.some((keyword) => schema[keyword])
        const freeText = schema.type === 'string' && !isChecked
        if (freeText) assert.equal(answer.status, 200, value)
        else assertRefused(answer, name, value)
      }
    })
  }

  if (!body) {
    test(`${operation}: a body gets 400`, async () => {
      const answer = await rawExchange(plane, { method, path, headers: headersOf(admin.token), body: '{}' })
      assert.deepEqual([answer.status, answer.body.error_code], [400, 'ERR_MALFORMED_REQUEST'])
    })
  }
}

nothingWasADefect(plane)
