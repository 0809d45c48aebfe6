import { answerOf, api } from '../../api/client.ts'
import type { Group } from '../edges/backend_options.ts'

export type Weights = Record<string, number>

/** The group as it is now with the ETag of that: what is on the page may be some seconds old. */
export async function readWeights(id: string): Promise<{ weights: Weights; etag: string }> {
  const { data, response } = await api.GET('/backends/weighted/{id}', { params: { path: { id } } })
  return { weights: data?.backends ?? {}, etag: response.headers.get('etag') ?? '' }
}
export async function readOrder(id: string): Promise<{ order: string[]; etag: string }> {
  const { data, response } = await api.GET('/backends/failover/{id}', { params: { path: { id } } })
  return { order: [...(data?.backends ?? [])], etag: response.headers.get('etag') ?? '' }
}

/** Someone else's change between reading and writing is refused rather than overwritten. */
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

/** As much as the others get: what a server had before it was drained is not kept. */
export const usualWeight = (weights: Weights): number => Math.max(0, ...Object.values(weights)) || 100
