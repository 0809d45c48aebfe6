import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { newId } from '../../src/kernel/ids.ts'
import type { Client } from '../harness/client.ts'
import { publicUrl } from '../harness/client.ts'
import { nothingWasADefect } from '../harness/defects.ts'
import {
  assertRefused,
  etagOf,
  ifMatch,
  make,
  newBackend,
  newRoute,
  newTcpEdge,
  refOf,
  shownBackend,
} from '../harness/fixtures.ts'
import { sharedControlPlane } from '../harness/shared_control_plane.ts'

const plane = await sharedControlPlane({ after })
const [admin, stranger] = [await plane.newAccount(), await plane.newAccount()]
const newWeighted = async (as: Client, weights: Record<string, number>) =>
  make(as, '/backends/weighted', { backends: weights })
const newFailover = (as: Client, backends: string[]) => make(as, '/backends/failover', { backends })
const newResponse = (as: Client, fields: object = {}) => make(as, '/backends/http_response', fields)
const idsOf = async (count: number, as: Client = admin): Promise<string[]> =>
  Promise.all(Array.from({ length: count }, async () => (await newBackend(as)).id))

test('a weighted backend shows its members and their weights, in the order sent', async () => {
  const [a = '', b = ''] = await idsOf(2)
  const { status, body } = await admin('POST', '/backends/weighted', {
    description: 'd',
    metadata: 'm',
    backends: { [b]: 10_000, [a]: 0 },
  })
  assert.equal(status, 201)
  const { id, uri, created_at, status: _health, ...rest } = body
  assert.match(id, /^bkdwd_[0-9a-z]{26}$/)
  assert.equal(uri, `${publicUrl}/backends/weighted/${id}`)
  assert.match(created_at, /^\d{4}-.*Z$/)
  assert.deepEqual(rest, { description: 'd', metadata: 'm', backends: { [b]: 10_000, [a]: 0 } })
  assert.deepEqual(Object.keys(rest.backends), [b, a])
  assert.deepEqual((await admin('GET', uri)).body, body)
  assert.deepEqual((await admin('PATCH', uri, {})).body, body)
  const drained = await admin('PATCH', uri, { id, backends: { [b]: 0, [a]: 5 } })
  assert.deepEqual(drained.body, { ...body, backends: { [b]: 0, [a]: 5 } })
  const alone = await admin('PATCH', uri, { backends: { [a]: 1 }, description: '' })
  assert.deepEqual(alone.body.backends, { [a]: 1 })
  assert.equal(alone.body.description, undefined)
  assert.deepEqual((await admin('GET', '/backends/weighted')).body.backends[0], alone.body)
})

test('a failover backend keeps the order of its members, of which the last can be a response', async () => {
  const members = [...(await idsOf(2)), (await newResponse(admin)).id]
  const group = await newFailover(admin, members)
  assert.match(group.id, /^bkdfo_[0-9a-z]{26}$/)
  assert.equal(group.uri, `${publicUrl}/backends/failover/${group.id}`)
  assert.deepEqual(group.backends, members)
  const [a = '', b = '', response = ''] = members
  for (const backends of [[b, a], [response], [b, response]])
    assert.deepEqual((await admin('PATCH', group.uri, { backends })).body, { ...group, backends })
  assert.deepEqual((await admin('PATCH', group.uri, { metadata: 'm' })).body.backends, [b, response])
})

test('lists are by kind, newest first, and in pages', async () => {
  const mine = await plane.newAccount()
  const [a = ''] = await idsOf(1, mine)
  const made: Record<string, { id: string }[]> = { weighted: [], failover: [], http_response: [] }
  for (let count = 0; count < 3; count++) {
    made.weighted?.unshift(await newWeighted(mine, { [a]: count }))
    made.failover?.unshift(await newFailover(mine, [a]))
    made.http_response?.unshift(await newResponse(mine))
  }
  for (const [kind, backends] of Object.entries(made)) {
    const path = `/backends/${kind}`
    const { body } = await mine('GET', path)
    assert.deepEqual(body, { backends, uri: publicUrl + path, next_page_uri: null })
    const { body: page } = await mine('GET', `${path}?limit=2`)
    assert.deepEqual((await mine('GET', page.next_page_uri)).body.backends, backends.slice(2))
  }
  assert.deepEqual(
    (await mine('GET', '/backends/static')).body.backends.map(({ id }: { id: string }) => id),
    [a],
  )
})

test('an id of one kind does not exist under another', async () => {
  const [a = ''] = await idsOf(1)
  const group = await newWeighted(admin, { [a]: 1 })
  const asStatic = group.id.replace('bkdwd', 'bkdst')
  for (const path of [`/backends/failover/${group.id}`, `/backends/static/${asStatic}`])
    for (const [method, body] of [['GET'], ['PATCH', {}], ['DELETE']] as const)
      assertRefused(await admin(method, path, body), 404, 'ERR_NOT_FOUND')
  const module = `${(await newRoute(admin)).uri}/backend`
  assertRefused(await admin('PUT', module, { backend_id: asStatic }), 400, 'ERR_INVALID_FIELD', 'backend_id')
  const nested = await admin('POST', '/backends/weighted', { backends: { [asStatic]: 1 } })
  assertRefused(nested, 400, 'ERR_INVALID_FIELD', `backends.${asStatic}`)
})

test('members are static backends of the account; a group in a group, or in itself, gets 400', async () => {
  const [a = '', gone = ''] = await idsOf(2)
  await admin('DELETE', `/backends/static/${gone}`)
  const weighted = await newWeighted(admin, { [a]: 1 })
  const failover = await newFailover(admin, [a])
  const response = await newResponse(admin)
  const [foreign = ''] = await idsOf(1, stranger)
  for (const id of [foreign, gone, newId('bkdst'), weighted.id, failover.id, response.id, newId('ipp'), 'x']) {
    const field = `backends.${id}`
    assertRefused(await admin('POST', '/backends/weighted', { backends: { [id]: 1 } }), 400, 'ERR_INVALID_FIELD', field)
    const changed = await admin('PATCH', weighted.uri, { backends: { [a]: 1, [id]: 1 } })
    assertRefused(changed, 400, 'ERR_INVALID_FIELD', field)
    if (id === response.id) continue
    for (const answer of [
      await admin('POST', '/backends/failover', { backends: [a, id] }),
      await admin('PATCH', failover.uri, { backends: [a, id] }),
    ])
      assertRefused(answer, 400, 'ERR_INVALID_FIELD', 'backends[1]')
  }
  assert.deepEqual((await admin('GET', weighted.uri)).body, weighted)
  assert.deepEqual((await admin('GET', failover.uri)).body, failover)
})

test('a group has 1 to 50 members, weights from 0 to 10000, and nothing twice', async () => {
  const ids = await idsOf(51)
  const weights = (count: number) => Object.fromEntries(ids.slice(0, count).map((id) => [id, 1]))
  const [a = '', b = ''] = ids
  assert.equal((await admin('POST', '/backends/weighted', { backends: weights(50) })).status, 201)
  assert.equal((await admin('POST', '/backends/failover', { backends: ids.slice(0, 50) })).status, 201)
  for (const backends of [weights(51), {}, null, [a], 'x', undefined])
    assertRefused(await admin('POST', '/backends/weighted', { backends }), 400, 'ERR_INVALID_FIELD', 'backends')
  for (const weight of [-1, 10_001, 0.5, '1', null, {}])
    assertRefused(
      await admin('POST', '/backends/weighted', { backends: { [a]: weight } }),
      400,
      'ERR_INVALID_FIELD',
      `backends.${a}`,
    )
  for (const backends of [ids, [], null, { [a]: 1 }, undefined])
    assertRefused(await admin('POST', '/backends/failover', { backends }), 400, 'ERR_INVALID_FIELD', 'backends')
  const twice = await admin('POST', '/backends/failover', { backends: [a, b, a] })
  assertRefused(twice, 400, 'ERR_INVALID_FIELD', 'backends[2]')
  const response = await newResponse(admin)
  for (const backends of [
    [response.id, a],
    [response.id, a, b],
  ])
    assertRefused(await admin('POST', '/backends/failover', { backends }), 400, 'ERR_INVALID_FIELD', 'backends[0]')
})

test('edges and routes use backends of any kind, and show each under its own path', async () => {
  const [a = ''] = await idsOf(1)
  const kinds = [await newWeighted(admin, { [a]: 1 }), await newFailover(admin, [a]), await newResponse(admin)]
  const route = await newRoute(admin)
  for (const backend of kinds) {
    const { body } = await admin('PUT', `${route.uri}/backend`, { backend_id: backend.id })
    assert.deepEqual(body, { enabled: true, ...shownBackend(backend) })
    assert.deepEqual((await admin('GET', body.backend.uri)).body, backend)
    assert.deepEqual((await admin('GET', route.uri)).body.backend, body)
  }
  for (const backend of kinds.slice(0, 2)) {
    const edge = await newTcpEdge(admin, { backend: { backend_id: backend.id } })
    assert.deepEqual(edge.backend.backend, refOf(backend))
  }
})

test('a TCP edge takes no HTTP response, alone or at the end of a failover backend, in either direction', async () => {
  const [a = ''] = await idsOf(1)
  const response = await newResponse(admin)
  const [withResponse, plain] = [await newFailover(admin, [a, response.id]), await newFailover(admin, [a])]
  const edge = await newTcpEdge(admin)
  for (const backend_id of [response.id, withResponse.id]) {
    assertRefused(await admin('PUT', `${edge.uri}/backend`, { backend_id }), 400, 'ERR_INVALID_FIELD', 'backend_id')
    for (const answer of [
      await admin('PATCH', edge.uri, { backend: { backend_id } }),
      await admin('POST', '/edges/tcp', { backend: { backend_id, enabled: false } }),
    ])
      assertRefused(answer, 400, 'ERR_INVALID_FIELD', 'backend.backend_id')
  }
  await admin('PUT', `${edge.uri}/backend`, { backend_id: plain.id })
  const grown = await admin('PATCH', plain.uri, { backends: [a, response.id] })
  assertRefused(grown, 400, 'ERR_INVALID_FIELD', 'backends[1]')
  assert.ok(grown.body.msg.includes(edge.id))
  await admin('DELETE', `${edge.uri}/backend`)
  assert.equal((await admin('PATCH', plain.uri, { backends: [a, response.id] })).status, 200)
})

test('deleting a backend in use by an edge, a route or a group gets 409 and names them', async () => {
  const [a = ''] = await idsOf(1)
  const response = await newResponse(admin)
  const groups = [await newWeighted(admin, { [a]: 1 }), await newFailover(admin, [a, response.id])]
  const route = await newRoute(admin, { backend: { backend_id: a } })
  const refused = await admin('DELETE', `/backends/static/${a}`)
  assertRefused(refused, 409, 'ERR_BACKEND_IN_USE')
  const users = [route, ...groups].map(({ id }) => id)
  assert.deepEqual(refused.body.details.used_by.split(', ').sort(), users.sort())
  assert.equal((await admin('DELETE', response.uri)).body.details.used_by, groups[1].id)
  for (const group of groups) {
    const inner = await newRoute(admin, { backend: { backend_id: group.id } })
    assert.equal((await admin('DELETE', group.uri)).body.details.used_by, inner.id)
    await admin('DELETE', inner.uri)
    assert.equal((await admin('DELETE', group.uri)).status, 204)
    assertRefused(await admin('GET', group.uri), 404, 'ERR_NOT_FOUND')
  }
  await admin('DELETE', route.uri)
  for (const uri of [`/backends/static/${a}`, response.uri]) assert.equal((await admin('DELETE', uri)).status, 204)
})

test('If-Match guards changes of groups, and only one of two concurrent ones wins', async () => {
  const [a = '', b = ''] = await idsOf(2)
  const { uri } = await newWeighted(admin, { [a]: 1, [b]: 1 })
  const tag = etagOf(await admin('GET', uri))
  const answers = await Promise.all(
    [
      { [a]: 0, [b]: 1 },
      { [a]: 1, [b]: 0 },
    ].map((backends) => admin('PATCH', uri, { backends }, ifMatch(tag))),
  )
  assert.deepEqual(answers.map(({ status }) => status).sort(), [200, 412])
  const winner = answers.find(({ status }) => status === 200)
  assert.deepEqual((await admin('GET', uri)).body, winner?.body)
  assertRefused(await admin('DELETE', uri, undefined, ifMatch(tag)), 412, 'ERR_PRECONDITION_FAILED')
})

test('two PATCHes of one group without If-Match both succeed, and one of them stays whole', async () => {
  const ids = await idsOf(6)
  const { uri } = await newFailover(admin, ids)
  for (let round = 0; round < 20; round++) {
    const orders = [ids.toReversed(), ids.slice(2)]
    const answers = await Promise.all(orders.map((backends) => admin('PATCH', uri, { backends })))
    assert.deepEqual(
      answers.map(({ status }) => status),
      [200, 200],
    )
    const { backends } = (await admin('GET', uri)).body
    assert.ok(orders.some((order) => order.join() === backends.join()))
  }
})

test('gaining a member races its deletion: no group ends up with a member that is gone', async () => {
  const [stays = ''] = await idsOf(1)
  const { uri } = await newWeighted(admin, { [stays]: 1 })
  for (let round = 0; round < 30; round++) {
    const [member = ''] = await idsOf(1)
    const [patched, created, deleted] = await Promise.all([
      admin('PATCH', uri, { backends: { [stays]: 1, [member]: 1 } }),
      admin('POST', '/backends/failover', { backends: [stays, member] }),
      admin('DELETE', `/backends/static/${member}`),
    ])
    const taken = [patched, created].filter(({ status }) => status < 300)
    for (const answer of [patched, created])
      if (answer.status >= 300) assertRefused(answer, 400, 'ERR_INVALID_FIELD', answer.body.details.field)
    assert.equal(deleted.status, taken.length ? 409 : 204, `${patched.status} ${created.status} ${deleted.text}`)
    assert.equal((await admin('GET', `/backends/static/${member}`)).status, taken.length ? 200 : 404)
    await admin('PATCH', uri, { backends: { [stays]: 1 } })
  }
})

test('a TCP edge takes a failover backend while that gains a response: never both', async () => {
  const [a = ''] = await idsOf(1)
  const response = await newResponse(admin)
  for (let round = 0; round < 30; round++) {
    const [group, edge] = [await newFailover(admin, [a]), await newTcpEdge(admin)]
    const [grown, attached] = await Promise.all([
      admin('PATCH', group.uri, { backends: [a, response.id] }),
      admin('PUT', `${edge.uri}/backend`, { backend_id: group.id }),
    ])
    assert.deepEqual([grown.status, attached.status].sort(), [200, 400])
  }
})

test('changes of groups are audited with what was and what is', async () => {
  const [a = '', b = ''] = await idsOf(2)
  const group = await newWeighted(admin, { [a]: 1 })
  await admin('PATCH', group.uri, { backends: { [a]: 0, [b]: 1 } })
  await admin('DELETE', group.uri)
  const { body } = await admin('GET', `/audit_events?resource_id=${group.id}`)
  const events = body.audit_events.map(({ operation, before, after: then }: Record<string, { backends?: object }>) => [
    operation,
    before?.backends,
    then?.backends,
  ])
  assert.deepEqual(events, [
    ['weighted_backends.delete', { [a]: 0, [b]: 1 }, undefined],
    ['weighted_backends.update', { [a]: 1 }, { [a]: 0, [b]: 1 }],
    ['weighted_backends.create', undefined, { [a]: 1 }],
  ])
})

nothingWasADefect(plane)
