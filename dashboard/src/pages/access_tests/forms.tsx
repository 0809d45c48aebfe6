import { useQuery } from '@tanstack/react-query'
import { answerOf, api, type Shapes } from '../../api/client.ts'
import { queries, useRefresh } from '../../api/queries.ts'
import { Choice } from '../../ui/choice.tsx'
import { Confirm } from '../../ui/confirm.tsx'
import { Field } from '../../ui/field.tsx'
import { FormDialog } from '../../ui/form_dialog.tsx'
import { Segments } from '../../ui/segments.tsx'
import { useDraft } from '../../ui/use_draft.ts'

export type AccessTest = Shapes['AccessTest']
type Type = AccessTest['target']['type']
type Closing = { onClose: () => void }

const types: readonly { value: Type; label: string }[] = [
  { value: 'api', label: 'This API' },
  { value: 'dashboard', label: 'The dashboard' },
  { value: 'edge', label: 'A TCP edge' },
  { value: 'route', label: 'A path of an HTTPS edge' },
]

/** Creates a test, or edits the given one. */
export function EditTest({ test, onClose }: Closing & { test?: AccessTest }) {
  const refresh = useRefresh()
  const { values, set, isDirty } = useDraft({
    address: test?.address ?? '',
    type: test?.target.type ?? ('api' as Type),
    edge: test?.target.edge_id ?? '',
    route: test?.target.route_id ?? '',
    path: test?.target.path ?? '/',
    expect: test?.expect ?? ('allowed' as AccessTest['expect']),
    description: test?.description ?? '',
  })
  const { address, type, path, expect, description } = values
  const { edges, routes } = useTargets()
  // The select shows its first option until the user chooses.
  const edge = values.edge || (edges[0]?.value ?? '')
  const route = values.route || (routes[0]?.value ?? '')
  const target = {
    type,
    ...(type === 'edge' && { edge_id: edge }),
    ...(type === 'route' && { route_id: route, path }),
  }
  const body = { address, target, expect, description }
  return (
    <FormDialog
      title={test ? 'Edit access test' : 'Create access test'}
      action={test ? 'Save' : 'Create access test'}
      isDirty={isDirty}
      save={() =>
        test
          ? answerOf(api.PATCH('/access_tests/{id}', { params: { path: { id: test.id } }, body }))
          : answerOf(api.POST('/access_tests', { body }))
      }
      onSaved={async () => {
        onClose()
        await refresh('/access_tests')
      }}
      onClose={onClose}
    >
      <Field
        label="Address"
        name="address"
        mono
        autoFocus
        value={address}
        onChange={set('address')}
        placeholder="203.0.113.7"
      />
      <Segments
        label="It must be"
        name="expect"
        value={expect}
        onChange={set('expect')}
        options={[
          { value: 'allowed', label: 'Allowed' },
          { value: 'refused', label: 'Refused' },
        ]}
      />
      <Choice label="By" name="target.type" value={type} onChange={set('type')} options={types} />
      {type === 'edge' && (
        <Choice label="TCP edge" name="target.edge_id" value={edge} onChange={set('edge')} options={edges} />
      )}
      {type === 'route' && (
        <>
          <Choice label="Route" name="target.route_id" value={route} onChange={set('route')} options={routes} />
          <Field
            label="Path"
            name="target.path"
            mono
            value={path}
            onChange={set('path')}
            hint="The route of this edge that the path belongs to decides."
          />
        </>
      )}
      <Field label="Description" name="description" value={description} onChange={set('description')} />
    </FormDialog>
  )
}

function useTargets() {
  const tcp = useQuery(queries.tcpEdges()).data ?? []
  const https = useQuery(queries.httpsEdges()).data ?? []
  return {
    edges: tcp.map(({ id, hostports, description }) => ({ value: id, label: description ?? hostports[0] ?? id })),
    routes: https.flatMap(({ hostports, routes, id }) =>
      routes.map((route) => ({ value: route.id, label: `${hostports[0] ?? id} ${route.match}` })),
    ),
  }
}

export function DeleteTest({ test, onClose }: Closing & { test: AccessTest }) {
  const refresh = useRefresh()
  return (
    <Confirm
      title={`Delete the test of ${test.address}?`}
      action="Delete access test"
      act={() => answerOf(api.DELETE('/access_tests/{id}', { params: { path: { id: test.id } } }))}
      onDone={async () => {
        onClose()
        await refresh('/access_tests')
      }}
      onClose={onClose}
    >
      <p>Changes that would break it are no longer refused.</p>
    </Confirm>
  )
}
