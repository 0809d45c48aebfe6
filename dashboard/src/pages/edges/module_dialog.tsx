import { type ReactNode, useState } from 'react'
import { type Api, answerOf, api, type Shapes } from '../../api/client.ts'
import { useRefresh } from '../../api/queries.ts'
import { TrialImpact } from '../../change_impact.tsx'
import { Button } from '../../ui/button.tsx'
import { Confirm } from '../../ui/confirm.tsx'
import { FormDialog } from '../../ui/form_dialog.tsx'

/** A TCP edge, or a route of an HTTPS edge. */
export type ModulePlace = { name: string; edgeId: string; routeId?: string }
type Bodies = {
  backend: { backend_id: string; enabled: boolean }
  ip_restriction: { ip_policy_ids: string[]; mode: Shapes['IpRestrictionModule']['mode']; enabled: boolean }
  request_headers: Headers
  response_headers: Headers
  user_agent_filter: Shapes['UserAgentFilterModule']
  cors: Shapes['CorsModule']
  methods: Shapes['MethodsModule']
  rate_limit: Shapes['RateLimitModule']
  connection_limit: Shapes['ConnectionLimitModule']
  redirect: Shapes['RedirectModule']
  rewrite: Shapes['RewriteModule']
  mutual_tls: Shapes['MutualTlsModuleReplace']
}
type Headers = { add: Record<string, string>; remove: string[]; enabled: boolean }
type Operations<Module extends keyof Bodies> = {
  noun: string
  /** Effect of removing the module. For access, the service computes the impact instead. */
  without?: string
  put: (place: ModulePlace, body: Bodies[Module], on?: Api) => Promise<unknown>
  remove: (place: ModulePlace, on?: Api) => Promise<unknown>
}

const edgeOf = ({ edgeId }: ModulePlace) => ({ params: { path: { id: edgeId } } })
const routeOf = ({ edgeId, routeId = '' }: ModulePlace) => ({ params: { path: { edge_id: edgeId, id: routeId } } })

/** Their operations differ only in path and body, which the client's types cannot express together. */
function onRoutes<
  Module extends Exclude<keyof Bodies, 'backend' | 'ip_restriction' | 'connection_limit' | 'mutual_tls'>,
>(module: Module, without: string, noun: string = module.replaceAll('_', ' ')): Operations<Module> {
  const path = `/edges/https/{edge_id}/routes/{id}/${module}` as '/edges/https/{edge_id}/routes/{id}/request_headers'
  return {
    noun,
    without,
    put: (place, body) => answerOf(api.PUT(path, { ...routeOf(place), body: body as Headers })),
    remove: (place) => answerOf(api.DELETE(path, routeOf(place))),
  }
}

const operations: { [Module in keyof Bodies]: Operations<Module> } = {
  backend: {
    noun: 'backend',
    without: 'Traffic is then refused until it has a backend again.',
    put: (place, body) =>
      place.routeId
        ? answerOf(api.PUT('/edges/https/{edge_id}/routes/{id}/backend', { ...routeOf(place), body }))
        : answerOf(api.PUT('/edges/tcp/{id}/backend', { ...edgeOf(place), body })),
    remove: (place) =>
      place.routeId
        ? answerOf(api.DELETE('/edges/https/{edge_id}/routes/{id}/backend', routeOf(place)))
        : answerOf(api.DELETE('/edges/tcp/{id}/backend', edgeOf(place))),
  },
  ip_restriction: {
    noun: 'restriction',
    put: (place, body, on = api) =>
      place.routeId
        ? answerOf(on.PUT('/edges/https/{edge_id}/routes/{id}/ip_restriction', { ...routeOf(place), body }))
        : answerOf(on.PUT('/edges/tcp/{id}/ip_restriction', { ...edgeOf(place), body })),
    remove: (place, on = api) =>
      place.routeId
        ? answerOf(on.DELETE('/edges/https/{edge_id}/routes/{id}/ip_restriction', routeOf(place)))
        : answerOf(on.DELETE('/edges/tcp/{id}/ip_restriction', edgeOf(place))),
  },
  // TCP edges forward bytes without parsing them, so these are for routes only.
  request_headers: onRoutes('request_headers', 'Requests then reach the backend as clients send them.', 'headers'),
  response_headers: onRoutes('response_headers', 'Responses then reach clients as the backend sends them.', 'headers'),
  user_agent_filter: onRoutes('user_agent_filter', 'Requests with any User-Agent are then let in.'),
  cors: onRoutes('cors', 'The backend then has to answer preflight requests itself.', 'CORS settings'),
  methods: onRoutes('methods', 'Every method is then let through.'),
  rate_limit: onRoutes('rate_limit', 'Requests are then not limited.'),
  connection_limit: {
    noun: 'rate limit',
    without: 'Connections are then not limited.',
    put: (place, body) => answerOf(api.PUT('/edges/tcp/{id}/rate_limit', { ...edgeOf(place), body })),
    remove: (place) => answerOf(api.DELETE('/edges/tcp/{id}/rate_limit', edgeOf(place))),
  },
  redirect: onRoutes('redirect', 'Requests then go to the backend, if the route has one.'),
  rewrite: onRoutes('rewrite', 'The backend then gets the path and the host that the client asked for.'),
  mutual_tls: {
    noun: 'client certificates',
    without: 'Clients are then let in without a certificate.',
    put: (place, body) => answerOf(api.PUT('/edges/https/{id}/mutual_tls', { ...edgeOf(place), body })),
    remove: (place) => answerOf(api.DELETE('/edges/https/{id}/mutual_tls', edgeOf(place))),
  },
}

type Props<Module extends keyof Bodies> = {
  title: string
  wide?: boolean
  place: ModulePlace
  module: Module
  isSet: boolean
  isDirty: boolean
  /** Undefined while the input is invalid. */
  body: Bodies[Module] | undefined
  onClose: () => void
  children: ReactNode
}

/** Saves or removes one module. Live reports at the foot of the page when every node has applied it. */
export function ModuleDialog<Module extends keyof Bodies>(props: Props<Module>) {
  const { title, wide, place, module, isSet, isDirty, body, onClose, children } = props
  const refresh = useRefresh()
  const { noun, without, put, remove }: Operations<Module> = operations[module]
  const onSaved = async () => {
    await refresh('/edges')
    onClose()
  }
  const [isRemoving, setRemoving] = useState(false)
  if (isRemoving)
    return (
      <Confirm
        title={`Remove the ${noun} of ${place.name}?`}
        action={`Remove ${noun}`}
        canDraft
        act={() => remove(place)}
        onDone={onSaved}
        // Also closes after the change was drafted or sent for approval.
        onClose={(isSent) => (isSent ? onClose() : setRemoving(false))}
      >
        {without ? <p>{without}</p> : <TrialImpact of={[place, 'remove']} change={(on) => remove(place, on)} />}
      </Confirm>
    )
  return (
    <FormDialog
      title={title}
      wide={wide}
      action="Save"
      isDirty={isDirty}
      isReady={body !== undefined}
      canDraft
      save={async () => body && (await put(place, body))}
      onSaved={onSaved}
      onClose={onClose}
      extra={
        isSet && (
          <Button kind="quiet" onPress={() => setRemoving(true)}>
            {`Remove ${noun}`}
          </Button>
        )
      }
    >
      {children}
      {module === 'ip_restriction' && (
        <TrialImpact of={[place, body]} change={isDirty && body ? (on) => put(place, body, on) : undefined} />
      )}
    </FormDialog>
  )
}
