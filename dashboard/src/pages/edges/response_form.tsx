import { answerOf, api, type Shapes } from '../../api/client.ts'
import { Field } from '../../ui/field.tsx'
import { useDraft } from '../../ui/use_draft.ts'
import { BackendDialog } from './backend_dialog.tsx'

type Props = { backend: Shapes['HttpResponseBackend'] | undefined; onClose: () => void }

/** One header per line, as in HTTP. */
const headersIn = (text: string): [string, string][] =>
  text
    .split('\n')
    .filter((line) => line.trim())
    .map((line) => {
      const colon = line.includes(':') ? line.indexOf(':') : line.length
      return [line.slice(0, colon).trim(), line.slice(colon + 1).trim()]
    })

export function ResponseForm({ backend, onClose }: Props) {
  const { values, set, isDirty } = useDraft({
    description: backend?.description ?? '',
    status: String(backend?.status_code ?? 503),
    headers: Object.entries(backend?.headers ?? {})
      .map(([name, value]) => `${name}: ${value}`)
      .join('\n'),
    body: backend?.body ?? '',
  })
  const headers = headersIn(values.headers)
  const isTwice = new Set(headers.map(([name]) => name)).size !== headers.length
  const save = () => {
    const body = {
      description: values.description,
      status_code: Number(values.status),
      headers: Object.fromEntries(headers),
      body: values.body,
    }
    return backend
      ? answerOf(api.PATCH('/backends/http_response/{id}', { params: { path: { id: backend.id } }, body }))
      : answerOf(api.POST('/backends/http_response', { body }))
  }
  return (
    <BackendDialog
      title={backend ? 'Edit HTTP response' : 'Create HTTP response'}
      wide
      action="Save response"
      isDirty={isDirty}
      isReady={!isTwice}
      save={save}
      onClose={onClose}
    >
      <Field label="Description" name="description" value={values.description} onChange={set('description')} />
      <Field label="Status code" name="status_code" type="number" value={values.status} onChange={set('status')} />
      <Field
        label="Headers"
        name="headers"
        mono
        rows={3}
        value={values.headers}
        onChange={set('headers')}
        placeholder="Retry-After: 600"
        hint="One per line. Without a Content-Type, the body is sent as plain text."
        error={isTwice ? 'A header is set twice.' : undefined}
      />
      <Field
        label="Body"
        name="body"
        mono
        rows={6}
        value={values.body}
        onChange={set('body')}
        hint="At most 8192 bytes."
      />
    </BackendDialog>
  )
}
