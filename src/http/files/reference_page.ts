export const page = `<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>API reference · Gatehouse</title><link rel="icon" href="../icon.svg">
<link rel="stylesheet" href="swagger-ui.css"><link rel="stylesheet" href="../reference.css"></head><body>
<p class="back"><a href="../">Documentation</a></p>
<div id="reference">This page needs JavaScript. Without it, see <a href="../../openapi.json">openapi.json</a>.</div>
<script src="swagger-ui-bundle.js"></script><script src="start.js"></script></body></html>
`

/**
 * Swagger UI, with samples above the responses of each operation and errors collapsed. Samples and colors come from the
 * documentation and are optional. The token stays in page memory. The validator is off because it would call a
 * third-party server.
 */
export const start = `const theme = localStorage.getItem('gatehouse-theme')
const isDark = theme ? theme === 'dark' : matchMedia('(prefers-color-scheme: dark)').matches
document.documentElement.classList.toggle('dark-mode', isDark)
if (theme === 'light' || theme === 'dark') document.documentElement.dataset.theme = theme

const samples = fetch('../samples.json').then((response) => (response.ok ? response.json() : {}), () => ({}))

const plugin = (known) => ({ React }) => {
  const element = React.createElement
  const Samples = ({ own }) => {
    const [chosen, choose] = React.useState(0)
    const tabs = own.map(({ label }, index) =>
      element('button', { key: label, type: 'button', 'aria-pressed': index === chosen, onClick: () => choose(index) }, label))
    return element('div', { className: 'samples' },
      element('div', { role: 'group', 'aria-label': 'Samples' }, tabs),
      element('pre', { tabIndex: 0 }, own[chosen].source))
  }
  const isError = (_response, code) => !/^[123]/.test(code)
  const wrapped = (Original) => (props) => {
    const own = known[props.method.toUpperCase() + ' ' + props.path]
    const errors = props.responses.filter(isError)
    const codes = errors.keySeq().join(', ')
    return element(React.Fragment, null,
      own && element(Samples, { own }),
      element(Original, { ...props, responses: props.responses.filterNot(isError) }),
      errors.size > 0 && element('details', { className: 'errors' },
        element('summary', null, 'Errors: ' + codes),
        element(Original, { ...props, responses: errors, tryItOutResponse: undefined })))
  }
  return { wrapComponents: { responses: wrapped } }
}

samples.then((known) => SwaggerUIBundle({
  url: '../../openapi.json',
  dom_id: '#reference',
  deepLinking: true,
  docExpansion: 'none',
  defaultModelsExpandDepth: 0,
  displayOperationId: true,
  persistAuthorization: false,
  validatorUrl: null,
  plugins: [plugin(known)],
  requestInterceptor: (request) => {
    request.headers['Service-Version'] = '2'
    return request
  },
}))
`
