import { answerOf, api, type Shapes } from '../../api/client.ts'
import { useRefresh } from '../../api/queries.ts'
import { Choice } from '../../ui/choice.tsx'
import { Field } from '../../ui/field.tsx'
import { FormDialog } from '../../ui/form_dialog.tsx'
import { useDraft } from '../../ui/use_draft.ts'
import { useBackendOptions } from './backend_options.ts'
import { noTimeouts, TimeoutFields, type TimeoutTexts, timeoutsOf } from './timeouts.tsx'

type Route = Shapes['HttpsEdgeRoute']
type RouteDraft = {
  match: string
  matchType: Route['match_type']
  encodedSlashes: Route['encoded_slashes']
  pathVariants: Route['path_variants']
  websocket: 'accept' | 'reject'
  timeouts: TimeoutTexts
  backendId: string
  headers: string
  description: string
}

const createRoute = (edgeId: string, draft: RouteDraft) =>
  answerOf(
    api.POST('/edges/https/{edge_id}/routes', {
      params: { path: { edge_id: edgeId } },
      body: {
        match: draft.match,
        match_type: draft.matchType,
        encoded_slashes: draft.encodedSlashes,
        path_variants: draft.pathVariants,
        websocket: draft.websocket === 'accept',
        timeouts: timeoutsOf(draft.timeouts),
        description: draft.description,
        ...(draft.backendId && { backend: { backend_id: draft.backendId } }),
        ...(draft.headers.trim() && { request_headers: { add: headersIn(draft.headers) } }),
      },
    }),
  )

/** Parses lines of `Name: value`. Other lines are sent as they are, so that the API's response explains the fault. */
const headersIn = (text: string): Record<string, string> =>
  Object.fromEntries(
    text
      .split('\n')
      .filter((line) => line.trim())
      .map((line) => {
        const [name = '', ...value] = line.split(':')
        return [name.trim(), value.join(':').trim()]
      }),
  )

export function AddRoute({ edge, onClose }: { edge: Shapes['HttpsEdge']; onClose: () => void }) {
  const backends = useBackendOptions('route')
  const { values, set, isDirty } = useDraft<RouteDraft>({
    match: '/',
    matchType: 'path_prefix',
    encodedSlashes: 'reject',
    pathVariants: 'restrict',
    websocket: 'accept',
    timeouts: noTimeouts,
    backendId: '',
    headers: '',
    description: '',
  })
  const refresh = useRefresh()
  return (
    <FormDialog
      title={`Add a route to ${edge.hostports[0] ?? edge.id}`}
      action="Save route"
      isDirty={isDirty}
      save={() => createRoute(edge.id, values)}
      canDraft
      onSaved={async () => {
        await refresh('/edges')
        onClose()
      }}
      onClose={onClose}
    >
      <Field
        label="Path"
        name="match"
        mono
        autoFocus
        value={values.match}
        onChange={set('match')}
        hint="The longest match wins."
      />
      <Choice
        label="Match type"
        name="match_type"
        value={values.matchType}
        onChange={set('matchType')}
        options={[
          { value: 'path_prefix', label: 'Prefix: the path and everything below it' },
          { value: 'exact_path', label: 'Exact: only this path' },
        ]}
      />
      <Choice
        label="Encoded slashes in paths"
        name="encoded_slashes"
        value={values.encodedSlashes}
        onChange={set('encodedSlashes')}
        options={[
          { value: 'reject', label: 'Reject with 400' },
          { value: 'allow', label: 'Allow' },
        ]}
      />
      <Choice
        label="Other spellings of the path"
        name="path_variants"
        value={values.pathVariants}
        onChange={set('pathVariants')}
        options={[
          { value: 'restrict', label: 'Apply the IP restriction to them' },
          { value: 'ignore', label: 'Leave them to other routes' },
        ]}
      />
      <Choice
        label="WebSockets"
        name="websocket"
        value={values.websocket}
        onChange={set('websocket')}
        options={[
          { value: 'accept', label: 'Accept' },
          { value: 'reject', label: 'Reject with 400' },
        ]}
      />
      <TimeoutFields value={values.timeouts} onChange={set('timeouts')} />
      <Choice
        label="Backend"
        name="backend.backend_id"
        value={values.backendId}
        onChange={set('backendId')}
        options={[{ value: '', label: 'None yet' }, ...backends]}
      />
      <Field
        label="Headers to add to requests"
        name="request_headers.add"
        mono
        rows={2}
        value={values.headers}
        onChange={set('headers')}
        placeholder="X-Team: storage"
        hint="One per line. A sample and what else can be changed is on the page of the edge."
      />
      <Field label="Description" name="description" value={values.description} onChange={set('description')} />
    </FormDialog>
  )
}
