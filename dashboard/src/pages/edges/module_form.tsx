import { useMutation, useQueryClient } from '@tanstack/react-query'
import type { ReactNode } from 'react'
import { answerOf, api } from '../../api/client.ts'
import { Button } from '../../ui/button.tsx'
import { ProblemNote } from '../../ui/problem.tsx'

/** A TCP edge, or a route of an HTTPS edge. */
export type ModulePlace = { name: string; edgeId: string; routeId?: string }
type Bodies = {
  backend: { backend_id: string; enabled: boolean }
  ip_restriction: { ip_policy_ids: string[]; enabled: boolean }
  request_headers: { add: Record<string, string>; remove: string[]; enabled: boolean }
}
type Props<Module extends keyof Bodies> = {
  place: ModulePlace
  module: Module
  isSet: boolean
  /** Undefined while it cannot be saved. */
  body: Bodies[Module] | undefined
  onClose: () => void
  children: ReactNode
}

const tcpPath = { backend: '/edges/tcp/{id}/backend', ip_restriction: '/edges/tcp/{id}/ip_restriction' } as const
const routePath = {
  backend: '/edges/https/{edge_id}/routes/{id}/backend',
  ip_restriction: '/edges/https/{edge_id}/routes/{id}/ip_restriction',
  request_headers: '/edges/https/{edge_id}/routes/{id}/request_headers',
} as const
const nouns = { backend: 'backend', ip_restriction: 'restriction', request_headers: 'headers' } as const

/** Saves or removes one module. Live shows at the foot of the page when every node has applied it. */
export function ModuleForm<Module extends keyof Bodies>({
  place,
  module,
  isSet,
  body,
  onClose,
  children,
}: Props<Module>) {
  const client = useQueryClient()
  const onSuccess = async () => {
    await client.invalidateQueries({ queryKey: ['edges'] })
    onClose()
  }
  const save = useMutation({ mutationFn: () => put(place, module, body as Bodies[Module]), onSuccess })
  const remove = useMutation({ mutationFn: () => take(place, module), onSuccess })
  return (
    <form
      onSubmit={(event) => {
        event.preventDefault()
        if (body) save.mutate()
      }}
    >
      {children}
      {save.isError && <ProblemNote error={save.error} />}
      {remove.isError && <ProblemNote error={remove.error} />}
      <div className="actions">
        {isSet && (
          <Button kind="quiet" isPending={remove.isPending} onPress={() => remove.mutate()}>
            {`Remove ${nouns[module]}`}
          </Button>
        )}
        <Button onPress={onClose}>Cancel</Button>
        <Button kind="primary" type="submit" isDisabled={!body} isPending={save.isPending}>
          Save
        </Button>
      </div>
    </form>
  )
}

function put(place: ModulePlace, module: keyof Bodies, body: Bodies[keyof Bodies]): Promise<unknown> {
  // The table of paths above goes with the table of bodies; the types of the client cannot see that they do.
  const sent = { body: body as never }
  if (place.routeId)
    return answerOf(
      api.PUT(routePath[module], { params: { path: { edge_id: place.edgeId, id: place.routeId } }, ...sent }),
    )
  if (module === 'request_headers') throw new Error('a TCP edge has no request headers')
  return answerOf(api.PUT(tcpPath[module], { params: { path: { id: place.edgeId } }, ...sent }))
}

function take(place: ModulePlace, module: keyof Bodies): Promise<unknown> {
  if (place.routeId)
    return answerOf(api.DELETE(routePath[module], { params: { path: { edge_id: place.edgeId, id: place.routeId } } }))
  if (module === 'request_headers') throw new Error('a TCP edge has no request headers')
  return answerOf(api.DELETE(tcpPath[module], { params: { path: { id: place.edgeId } } }))
}
