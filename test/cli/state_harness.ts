import assert from 'node:assert/strict'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { Client } from '../harness/client.ts'
import { make } from '../harness/fixtures.ts'
import { testRun } from '../harness/test_run.ts'

const lists = [
  ['/ip_policies', 'ip_policies'],
  ['/ip_policy_rules', 'ip_policy_rules'],
  ['/ip_restrictions', 'ip_restrictions'],
  ['/backends/static', 'backends'],
  ['/backends/http_response', 'backends', 'http_response_backends'],
  ['/backends/weighted', 'backends', 'weighted_backends'],
  ['/backends/failover', 'backends', 'failover_backends'],
  ['/edges/tcp', 'tcp_edges'],
  ['/edges/https', 'https_edges'],
] satisfies [path: string, field: string, name?: string][]

/**
 * What the API shows of an account, oldest first, without times and with places instead of ids: the first policy is
 * ipp#0 wherever it is referred to. Two accounts that are equal here are the same but for ids and times.
 */
export async function contentsOf(as: Client): Promise<Record<string, unknown[]>> {
  const contents: Record<string, unknown[]> = {}
  for (const [path, field, name = field] of lists) {
    const rows: unknown[] = []
    for (let next: string | null = path; next; ) {
      const { body } = await as('GET', next)
      rows.push(...body[field])
      next = body.next_page_uri
    }
    contents[name] = rows.reverse()
  }
  const places = new Map<string, string>()
  const counts = new Map<string, number>()
  // In the order in which ids were made, for each kind of id.
  for (const id of [
    ...new Set(JSON.stringify(contents).match(/\b(ipp|ipr|ipx|bkdst|bkdwd|bkdfo|bkdhr|edgtcp|edghts)_[0-9a-z]{26}\b/g)),
  ].sort()) {
    const [prefix = ''] = id.split('_')
    const count = counts.get(prefix) ?? 0
    counts.set(prefix, count + 1)
    places.set(id, `${prefix}#${count}`)
  }
  const replaced = JSON.parse(
    JSON.stringify(contents, (name, value) => (name === 'uri' || name === 'created_at' ? undefined : value)).replaceAll(
      /\b[a-z]+_[0-9a-z]{26}\b/g,
      (id) => places.get(id) ?? id.split('_')[0] ?? '',
    ),
  )
  // Rules have no order of their own, and theirs is not kept.
  const withoutId = (rule: { id: string }) => JSON.stringify({ ...rule, id: undefined })
  return { ...replaced, ip_policy_rules: replaced.ip_policy_rules.map(withoutId).toSorted() }
}

export const countOf = (contents: Record<string, unknown[]>): number =>
  Object.entries(contents).reduce(
    (sum, [kind, rows]) =>
      sum +
      rows.length +
      (kind === 'https_edges' ? rows.flatMap((edge) => (edge as { routes: unknown[] }).routes).length : 0),
    0,
  )

let files = 0
export async function stateFile(text: string): Promise<string> {
  const file = join(testRun.folder, `state-${process.pid}-${files++}.yaml`)
  await writeFile(file, text)
  return file
}

/** An account of many things of every kind, made through the API: also two that look the same, and odd texts. */
export async function fillAccount(as: Client, size: number): Promise<void> {
  const several = async <T>(count: number, one: (index: number) => Promise<T>): Promise<T[]> => {
    const made: T[] = []
    const waiting = Array.from({ length: count }, (_, index) => index).values()
    const work = async () => {
      for (const index of waiting) made[index] = await one(index)
    }
    await Promise.all(Array.from({ length: 8 }, work))
    return made
  }
  const texts = [
    'office: "a" # b',
    '- x',
    'ünï 漢字',
    'yes',
    '12',
    undefined,
    'line\nline',
    ' spaces ',
    '{}',
    'office: "a" # b',
  ]
  const textOf = (index: number) => texts[index % texts.length]
  const policies = await several(size, (index) =>
    make(as, '/ip_policies', { description: textOf(index), metadata: index % 7 ? undefined : `{"n": ${index}}` }),
  )
  await several(size, async (index) => {
    const rules = Array.from({ length: index % 5 }, (_, n) => ({
      action: n === 3 ? 'deny' : 'allow',
      cidr: n === 2 ? `2001:db8:${index}::/48` : `10.${index % 200}.${n}.0/24`,
      ...(n === 1 && { description: textOf(index), expires_at: '2031-01-01T00:00:00Z', metadata: 'x' }),
    }))
    const replaced = await as('PUT', `/ip_policies/${policies[index]?.id}/rules`, { rules })
    assert.equal(replaced.status, 200, replaced.text)
  })
  const idOf = (index: number) => policies[index % policies.length]?.id as string
  await several(Math.ceil(size / 5), (index) =>
    make(as, '/ip_restrictions', {
      type: ['dashboard', 'agent', 'endpoints'][index % 3],
      enforced: index % 2 === 0,
      description: textOf(index),
      ip_policy_ids: [idOf(index), idOf(index + 1)],
    }),
  )
  const backends = await several(size, (index) =>
    make(as, '/backends/static', {
      address: `app-${index % 40}.internal:${8000 + (index % 3)}`,
      description: textOf(index),
      ...(index % 3 === 0 && { tls: { enabled: true } }),
      ...(index % 5 === 0 && { send_proxy_protocol: true }),
    }),
  )
  const backendOf = (index: number) => ({ backend_id: backends[index % backends.length]?.id })
  await several(size, (index) =>
    make(as, '/edges/tcp', {
      hostports: index % 9 ? [`tcp-${index}.example:${21000 + index}`, `tcp-${index}.example:${26000 + index}`] : [],
      description: textOf(index),
      ...(index % 4 && { backend: { ...backendOf(index), enabled: index % 8 !== 1 } }),
      ...(index % 3 && { ip_restriction: { ip_policy_ids: [idOf(index)] } }),
    }),
  )
  await several(Math.ceil(size / 4), async (index) => {
    const edge = await make(as, '/edges/https', {
      hostports: [`app-${index}.example:443`, `*.app-${index}.example:443`],
      metadata: 'm',
    })
    for (let n = 0; n < 4; n++) {
      await make(as, `${edge.uri}/routes`, {
        match_type: n % 2 ? 'exact_path' : 'path_prefix',
        match: n < 2 ? '/' : `/part-${n}`,
        backend: backendOf(index + n),
        ...(n === 1 && {
          request_headers: { add: { 'X-Env': 'prod # not a comment', 'X-N': '1' }, remove: ['Cookie'] },
        }),
        ...(n === 3 && { timeouts: { response_seconds: 120, ...(index % 2 && { idle_seconds: 600 }) } }),
        ...(n === 2 && { ip_restriction: { enabled: false, ip_policy_ids: [idOf(index), idOf(index + 3)] } }),
      })
    }
  })
}
