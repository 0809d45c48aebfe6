import { answerOf, api } from '../../api/client.ts'
import type { Group } from '../edges/backend_options.ts'

export type Weights = Record<string, number>

/** The current group with its ETag: the page may be seconds old. */
export async function readWeights(id: string): Promise<{ weights: Weights; etag: string }> {
  const { data, response } = await api.GET('/backends/weighted/{id}', { params: { path: { id } } })
  return { weights: data?.backends ?? {}, etag: response.headers.get('etag') ?? '' }
}
export async function readOrder(id: string): Promise<{ order: string[]; etag: string }> {
  const { data, response } = await api.GET('/backends/failover/{id}', { params: { path: { id } } })
  return { order: [...(data?.backends ?? [])], etag: response.headers.get('etag') ?? '' }
}

/** Refuses to overwrite a concurrent change. */
export async function changeWeights(id: string, change: (weights: Weights) => Weights): Promise<void> {
  const { weights, etag } = await readWeights(id)
  const params = { path: { id }, header: { 'If-Match': etag } }
  await answerOf(api.PATCH('/backends/weighted/{id}', { params, body: { backends: change(weights) } }))
}

export async function takeOut(group: Group, member: string): Promise<void> {
  if (group.kind === 'weighted') return changeWeights(group.backend.id, ({ [member]: _, ...others }) => others)
  const { order, etag } = await readOrder(group.backend.id)
  const params = { path: { id: group.backend.id }, header: { 'If-Match': etag } }
  const backends = order.filter((id) => id !== member)
  await answerOf(api.PATCH('/backends/failover/{id}', { params, body: { backends } }))
}

/** The same weight as the others: the weight from before a drain is not stored. */
export const usualWeight = (weights: Weights): number => Math.max(0, ...Object.values(weights)) || 100
