# SPDX-License-Identifier: Apache-2.0
# A shop of one file in Django, with its models in SQLite in memory: gunicorn -w 1 -b 127.0.0.1:PORT django_shop:application
import django
from django.conf import settings

TEMPLATE = """<table>{% for order in orders %}<tr class="{% cycle 'odd' 'even' %}"><td>{{ order.customer|title }}</td>
<td>{{ order.total|floatformat:2 }}</td><td>{{ order.placed|date:"Y-m-d" }}</td></tr>{% endfor %}</table>"""
settings.configure(
    ALLOWED_HOSTS=["*"],
    DATABASES={"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"}},
    DEFAULT_AUTO_FIELD="django.db.models.AutoField",
    ROOT_URLCONF=__name__,
    TEMPLATES=[
        {
            "BACKEND": "django.template.backends.django.DjangoTemplates",
            "OPTIONS": {"loaders": [("django.template.loaders.locmem.Loader", {"orders.html": TEMPLATE})]},
        }
    ],
    USE_TZ=False,
)
django.setup()

from datetime import date, timedelta

from django.core.wsgi import get_wsgi_application
from django.db import connection, models
from django.http import JsonResponse
from django.shortcuts import render
from django.urls import path


class Order(models.Model):
    customer = models.CharField(max_length=40)
    total = models.FloatField()
    placed = models.DateField()

    class Meta:
        app_label = "shop"


def fill():
    with connection.schema_editor() as editor:
        editor.create_model(Order)
    first = date(2026, 1, 1)
    Order.objects.bulk_create(
        Order(customer="customer %d" % (i % 37), total=i * 1.25, placed=first + timedelta(i % 300)) for i in range(600)
    )


def discount(order):
    return order.total * (0.9 if order.total > 300 else 1.0)


def orders(request):
    return render(request, "orders.html", {"orders": Order.objects.filter(total__gt=100).order_by("customer")[:60]})


def report(request):
    sums = {}
    for order in Order.objects.all()[:200]:
        sums[order.customer] = sums.get(order.customer, 0) + discount(order)
    return JsonResponse(sums)


urlpatterns = [path("orders", orders), path("report", report)]
application = get_wsgi_application()
fill()
