/* `helm lint CHART` and `helm template NAME CHART NAMESPACE VALUES`, as Helm's own program does them.
 *
 * `VALUES` is a file beside the chart's own values. */
#include <stdio.h>
#include <string.h>

#include "helm.h"

/* The version of Kubernetes that Helm 3.21 takes where it knows of no cluster. */
#define KUBERNETES "v1.35.0"

/* How the report of a lint ends that has found nothing. */
static const char PASSED[] = "Failed: false";

static int ends_with(const char *text, const char *end)
{
	size_t length = strlen(text), other = strlen(end);
	return length >= other && strcmp(text + length - other, end) == 0;
}

int main(int count, char **arguments)
{
	Result result;
	int is_lint = count == 3 && strcmp(arguments[1], "lint") == 0;
	if (is_lint) {
		struct LintOptions options = { .path = arguments[2], .strict = 1, .quiet = 1 };
		result = Lint(&options);
	} else if (count == 6 && strcmp(arguments[1], "template") == 0) {
		struct TemplateOptions options = {
			.name = arguments[2],
			.chart = arguments[3],
			.namespace = arguments[4],
			.kubeVersion = KUBERNETES,
			.valuesFiles = arguments[5],
		};
		result = Template(&options);
	} else {
		fprintf(stderr, "usage: helm lint CHART | helm template NAME CHART NAMESPACE VALUES\n");
		return 2;
	}
	if (result.err != NULL && *result.err != '\0') {
		fprintf(stderr, "%s\n", result.err);
		return 1;
	}
	if (is_lint && !ends_with(result.out, PASSED)) {
		fprintf(stderr, "%s\n", result.out);
		return 1;
	}
	fputs(result.out, stdout);
	return 0;
}
